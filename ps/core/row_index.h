// RowIndex: maps the uint64 keys of one table to row numbers. It grows one segment at a time, never
// as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "ps/core/arena.h"
#include "shared/base/hash.h"
#include "shared/base/ids.h"

namespace downpour::ps {

/// No such row. A pull also reports it for a key that was never applied to.
constexpr uint32_t kNoRow = UINT32_MAX;

/// One cache line of the index.
struct alignas(64) Bucket {
  static constexpr uint32_t kSlots = 5;
  static constexpr uint32_t kFull = (1U << kSlots) - 1;
  static constexpr uint32_t kOverflowed = 1U << kSlots;

  uint64_t keys[kSlots];
  uint32_t rows[kSlots];
  // Bit s: slot s is used (slots fill upwards). kOverflowed: a key that belongs here lies in a
  // later bucket.
  uint32_t state;

  /// Returns a mask: bit s is set if slot s holds `key`.
  uint32_t match(uint64_t key) const {
#ifdef __AVX512F__
    const __m512i line = _mm512_load_si512(this);
    return _mm512_cmpeq_epi64_mask(line, _mm512_set1_epi64(int64_t(key))) & state & kFull;
#else
    uint32_t bits = 0;
    for (uint32_t s = 0; s < kSlots; ++s) bits |= uint32_t(keys[s] == key) << s;
    return bits & state;
#endif
  }
};
static_assert(sizeof(Bucket) == 64);

/// Extendible hashing (Fagin, Nievergelt, Pippenger, Strong 1979) over segments of buckets. The
/// high bits of the hash pick the segment through a directory, so that a partition's keys lie in
/// few segments. Inside the segment, the hash is multiplied by a secret odd number. The leading
/// bits of the product, scaled to the segment's size, pick the home bucket. A full bucket overflows
/// into the next one. So a segment may have any size. A full segment grows or, when it is large,
/// splits in two: at most kSegmentBucketsMax * 5 keys move at once. Any key is valid. Only
/// erase_partition() removes keys.
///
/// The next bits of the hash would not do as home bucket, for two reasons. A core that owns few
/// partitions would leave most of a segment empty. And the row hash is public and invertible, so a
/// peer could make keys that agree in all bits but a few. They would fill a run of buckets, and
/// each insert would walk all of it. With the product (multiply-shift: Dietzfelbinger, Hagerup,
/// Katajainen, Penttonen 1997), two given keys share m leading bits with a probability of at most 2
/// in 2^m, whatever the keys are.
class RowIndex final {
  struct Segment {  // copied into every directory entry that leads to it
    uint32_t first_bucket;
    uint32_t bucket_count;
    uint32_t depth;  // number of high bits of the hash that all its keys share
  };
  static uint32_t home(const Segment& segment, uint64_t hash, uint64_t multiplier) {
    return uint32_t((((hash * multiplier) >> 32) * segment.bucket_count) >> 32);
  }

 public:
  static constexpr uint32_t kSegmentBucketsMax = 4096;  // 256 KiB, about 18,000 keys

  /// Upper bound of the memory per key: a segment that has just grown is half full, and a hole of
  /// the same size may be unused.
  static constexpr uint64_t kKeyBytesMax = 2 * sizeof(Bucket) * 2 / Bucket::kSlots;

  /// `salt` determines the secret number. The same salt gives the same index, bit for bit.
  RowIndex(TableId table, uint64_t salt, RowGroup group = RowGroup::kAll);
  /// Sets the options. Call it before the first key.
  void configure(const ArenaOptions& options) { arena_.configure(options); }

  uint64_t hash(uint64_t key) const { return row_hash(table_, key, group_); }
  /// Finds home buckets. It copies the members that this needs, so that a loop keeps them in
  /// registers. Valid until generation() changes.
  class Homes {
   public:
    explicit Homes(const RowIndex& index)
        : table_(index.table_),
          group_(index.group_),
          shift_(63 - index.directory_bits_),
          multiplier_(index.multiplier_),
          directory_(index.directory_.data()),
          buckets_(reinterpret_cast<const Bucket*>(index.arena_.base())) {}
    const Bucket* of(uint64_t key) const {
      const uint64_t hash = row_hash(table_, key, group_);
      const Segment& segment = directory_[(hash >> 1) >> shift_];
      return buckets_ + segment.first_bucket + home(segment, hash, multiplier_);
    }

   private:
    TableId table_;
    RowGroup group_;
    uint32_t shift_;
    uint64_t multiplier_;
    const Segment* directory_;
    const Bucket* buckets_;
  };
  /// Returns the key's row if the key lies in its home bucket. Otherwise returns kNoRow and
  /// prefetches the next bucket: the key is absent or lies further on.
  [[gnu::always_inline]] static uint32_t find_in(const Bucket* home, uint64_t key) {
    const uint32_t bits = home->match(key);
    if (bits != 0) [[likely]]
      return home->rows[__builtin_ctz(bits)];
    __builtin_prefetch(home + 1);
    return kNoRow;
  }
  uint64_t generation() const { return generation_; }
  /// Returns the key's row, or kNoRow. `hash` must be hash(key).
  uint32_t find(uint64_t key, uint64_t hash) const {
    const Segment& segment = segment_of(hash);
    for (uint32_t b = home(segment, hash);;) {
      const Bucket& bucket = buckets(segment)[b];
      const uint32_t bits = bucket.match(key);
      if (bits != 0) [[likely]]
        return bucket.rows[__builtin_ctz(bits)];
      if ((bucket.state & Bucket::kOverflowed) == 0) [[likely]]
        return kNoRow;
      b = b + 1 == segment.bucket_count ? 0 : b + 1;
    }
  }
  /// Adds a key. It must be absent.
  void insert(uint64_t key, uint64_t hash, uint32_t row);

  struct Entry {
    uint64_t key;
    uint32_t row;
    auto operator<=>(const Entry&) const = default;
  };
  /// Replaces `entries` with the keys of one of 2^partition_bits partitions, in no order.
  void entries_of(PartitionId partition, uint32_t partition_bits,
                  std::vector<Entry>& entries) const;
  /// Removes the keys of that partition.
  void erase_partition(PartitionId partition, uint32_t partition_bits);

  /// Reserves memory for `keys` further keys without touching it. Returns false if the system
  /// refuses.
  [[nodiscard]] bool reserve(uint64_t keys);

  uint64_t size() const { return size_; }
  /// Bytes of memory of the directory and of all buckets, including free ones.
  uint64_t bytes() const;

 private:
  struct Run {  // directory entries [begin, end) lead to one segment
    size_t begin, end;
  };

  const Segment& segment_of(uint64_t hash) const {
    return directory_[(hash >> 1) >>
                      (63 - directory_bits_)];  // two shifts, because directory_bits_ may be 0
  }
  Bucket* buckets(const Segment& segment) const {
    return reinterpret_cast<Bucket*>(arena_.base()) + segment.first_bucket;
  }
  uint32_t home(const Segment& segment, uint64_t hash) const {
    return home(segment, hash, multiplier_);
  }
  Run run_of(size_t directory_index) const;
  uint64_t place_hash(const Segment& segment, size_t run_begin) const;
  void set_run(Run run, const Segment& segment, uint32_t used);
  void make_room(uint64_t hash);
  void resize(Run run, uint32_t bucket_count);
  void split(Run run);
  bool may_double_directory() const;
  void double_directory();
  std::vector<Entry> take_out(Run run);
  void give_back(std::vector<Entry>&& entries);
  void put_back(Run run, uint32_t depth, uint32_t bucket_count, std::span<const Entry> entries);
  uint32_t take_buckets(uint32_t count);
  void free_buckets(uint32_t first, uint32_t count);
  template <typename Visit>
  void visit_partition(PartitionId partition, uint32_t partition_bits, Visit&& visit) const;

  struct Extent {
    uint32_t first, count;
  };

  TableId table_;
  RowGroup group_;
  uint64_t multiplier_;  // odd
  uint32_t directory_bits_ = 0;
  std::vector<Segment> directory_;  // 2^directory_bits_
  std::vector<uint32_t> used_;      // keys of the segment; valid at the first entry of its run
  uint64_t size_ = 0;
  uint64_t segment_count_ = 1;
  uint64_t generation_ = 0;     // number of bucket moves
  Arena arena_;                 // of buckets
  uint32_t buckets_end_ = 0;    // buckets [0, buckets_end_) belong to segments or are free
  std::vector<Extent> free_;    // ascending, never adjacent
  std::vector<Entry> scratch_;  // of the last segment that grew
};

}  // namespace downpour::ps
