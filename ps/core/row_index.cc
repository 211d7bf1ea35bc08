#include "ps/core/row_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "shared/base/check.h"

namespace downpour::ps {
namespace {

static_assert(Bucket::kSlots == 5);
// A segment grows when 4 in 5 slots are used. A higher share costs more than it saves. At 9 in 10 a
// look-up touches 1.26 lines instead of 1.14, and the second line was not prefetched. It takes 30
// ns instead of 24 ns at 16 M keys.
constexpr uint32_t capacity_of(uint32_t bucket_count) { return bucket_count * 4; }
// Sizes of large segments are multiples of this, so that the hole that one leaves fits another.
constexpr uint32_t kStep = 128;
constexpr uint32_t rounded(uint32_t bucket_count) {
  return bucket_count < 4 * kStep ? bucket_count : (bucket_count + kStep - 1) / kStep * kStep;
}
/// Number of buckets for `keys` keys, with room for a quarter more.
constexpr uint32_t buckets_for(uint32_t keys) { return rounded(keys * 5 / 16 + 1); }
/// The next size of a segment. Small segments grow by half, for speed. Large ones grow by a quarter
/// on average, for memory. `chance` (any number) gives each segment a growth rate of its own.
/// Segments fill evenly: with one rate they would all grow at the same moment, again and again.
constexpr uint32_t grown(uint32_t bucket_count, uint64_t chance) {
  if (bucket_count < kStep) return bucket_count + bucket_count / 2 + 1;
  const uint64_t sixteenths = bucket_count < 4 * kStep ? 6 + chance % 5 : 2 + chance % 5;
  return rounded(bucket_count + uint32_t(bucket_count * sixteenths / 16));
}

// Limits the memory kept between growths to one byte per key.
constexpr size_t kScratchKeysPerEntry = 16;

// Limit of directory entries per segment. Beyond it (keys made to share high hash bits), segments
// exceed their size limit instead. Then a growth moves more keys, but growths are not more
// frequent.
constexpr uint64_t kDirectoryPerSegmentMax = 16;
// A directory of this size is always allowed. It distinguishes 4096 partitions, of which a core may
// own a single one, and has a few bits to spare.
constexpr uint32_t kDirectoryBitsMin = 16;
constexpr uint32_t kDirectoryBitsMax = 28;

/// Puts an absent key into its home bucket, or into the next one with room.
void place(Bucket* buckets, uint32_t count, uint32_t home, uint64_t key, uint32_t row) {
  uint32_t b = home;
  while ((buckets[b].state & Bucket::kFull) == Bucket::kFull) {
    buckets[b].state |= Bucket::kOverflowed;
    b = b + 1 == count ? 0 : b + 1;
  }
  const uint32_t slot = uint32_t(__builtin_ctz(~buckets[b].state));
  buckets[b].keys[slot] = key;
  buckets[b].rows[slot] = row;
  buckets[b].state |= 1U << slot;
}

/// Calls visit(key, row) for every used slot.
template <typename Visit>
void visit_bucket(const Bucket& bucket, Visit&& visit) {
  for (uint32_t bits = bucket.state & Bucket::kFull; bits != 0; bits &= bits - 1) {
    const auto slot = uint32_t(__builtin_ctz(bits));
    visit(bucket.keys[slot], bucket.rows[slot]);
  }
}

}  // namespace

RowIndex::RowIndex(TableId table, uint64_t salt, RowGroup group)
    : table_(table),
      group_(group),
      multiplier_(hash_combine(salt, raw(table)) | 1),
      arena_(sizeof(Bucket) / sizeof(float)) {
  directory_.push_back({});
  used_.push_back(0);
  put_back({0, 1}, 0, 1, {});
}

uint64_t RowIndex::bytes() const {
  return arena_.touched_bytes(buckets_end_) + directory_.capacity() * sizeof(Segment) +
         used_.capacity() * sizeof(uint32_t) + free_.capacity() * sizeof(Extent) +
         scratch_.capacity() * sizeof(Entry) + sizeof(RowIndex);
}

/// Growing segments take new buckets until the holes that others left fit them. A quarter of all
/// buckets is enough for all segments that grow at the same time. In addition, a few keys may split
/// the largest segment.
bool RowIndex::reserve(uint64_t keys) {
  const uint64_t end = uint64_t{buckets_end_} + buckets_end_ / 4 + 2 * keys +
                       std::min<uint64_t>(buckets_end_, 2 * kSegmentBucketsMax);
  return end <= UINT32_MAX && arena_.reserve(end);
}

/// Takes the first hole that fits, so that holes near the beginning fill up and the end stays low.
/// This is rare: once in thousands of inserts.
uint32_t RowIndex::take_buckets(uint32_t count) {
  for (auto extent = free_.begin(); extent != free_.end(); ++extent) {
    if (extent->count < count) continue;
    const uint32_t first = extent->first;
    extent->first += count;
    extent->count -= count;
    if (extent->count == 0) free_.erase(extent);
    return first;
  }
  DP_CHECK(buckets_end_ <= UINT32_MAX - count, buckets_end_, count);
  const uint32_t first = buckets_end_;
  buckets_end_ += count;
  arena_.ensure(buckets_end_);
  return first;
}

void RowIndex::free_buckets(uint32_t first, uint32_t count) {
  auto next = std::lower_bound(free_.begin(), free_.end(), first,
                               [](const Extent& extent, uint32_t f) { return extent.first < f; });
  if (next != free_.end() && first + count == next->first) {
    *next = {first, count + next->count};
  } else {
    next = free_.insert(next, {first, count});
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->count == next->first) {
    std::prev(next)->count += next->count;
    next = std::prev(free_.erase(next));
  }
  if (next->first + next->count == buckets_end_) {
    buckets_end_ = next->first;
    free_.erase(next);
  }
}

RowIndex::Run RowIndex::run_of(size_t directory_index) const {
  const uint32_t free_bits = directory_bits_ - directory_[directory_index].depth;
  const size_t begin = directory_index >> free_bits << free_bits;
  return {begin, begin + (size_t(1) << free_bits)};
}

/// Returns a number that is characteristic of the segment. It depends on the segment's place among
/// the hashes, not on chance.
uint64_t RowIndex::place_hash(const Segment& segment, size_t run_begin) const {
  const uint64_t prefix = run_begin >> (directory_bits_ - segment.depth);
  return hash_combine(raw(table_), prefix | uint64_t(1) << segment.depth);
}

void RowIndex::set_run(Run run, const Segment& segment, uint32_t used) {
  std::fill(directory_.begin() + ptrdiff_t(run.begin), directory_.begin() + ptrdiff_t(run.end),
            segment);
  used_[run.begin] = used;
}

void RowIndex::insert(uint64_t key, uint64_t hash, uint32_t row) {
  for (;;) {
    const Run run = run_of((hash >> 1) >> (63 - directory_bits_));
    const Segment& segment = directory_[run.begin];
    if (used_[run.begin] < capacity_of(segment.bucket_count)) {
      place(buckets(segment), segment.bucket_count, home(segment, hash), key, row);
      ++used_[run.begin];
      ++size_;
      return;
    }
    make_room(hash);
  }
}

void RowIndex::make_room(uint64_t hash) {
  Run run = run_of((hash >> 1) >> (63 - directory_bits_));
  const uint32_t count = directory_[run.begin].bucket_count;
  // The segments of a large table fill evenly. A number of its own makes each segment split at
  // another size, between half of the maximum and the maximum, and grow in other steps. So they do
  // not all split or grow at the same moment.
  const uint64_t place = place_hash(directory_[run.begin], run.begin);
  const uint32_t split_from = kSegmentBucketsMax / 2 + uint32_t(place % (kSegmentBucketsMax / 2));
  const uint32_t next_count = grown(count, hash_combine(place, count));
  if (next_count <= split_from) return resize(run, next_count);
  if (run.end - run.begin == 1) {
    if (!may_double_directory()) return resize(run, next_count);
    double_directory();
    run = run_of((hash >> 1) >> (63 - directory_bits_));
  }
  split(run);
}

/// Empties the segment and frees its buckets. Pass the entries to give_back() at the end.
std::vector<RowIndex::Entry> RowIndex::take_out(Run run) {
  const Segment& segment = directory_[run.begin];
  std::vector<Entry> entries = std::move(scratch_);
  entries.clear();
  entries.reserve(std::bit_ceil(used_[run.begin]));
  for (uint32_t b = 0; b < segment.bucket_count; ++b) {
    visit_bucket(buckets(segment)[b], [&](uint64_t key, uint32_t row) {
      entries.push_back({key, row});
    });
  }
  free_buckets(segment.first_bucket, segment.bucket_count);
  return entries;
}

/// Keeps the memory for the next segment that grows. Otherwise each growth would request it from
/// the kernel and touch it for the first time. Small tables do not keep it, because there may be
/// thousands of them.
void RowIndex::give_back(std::vector<Entry>&& entries) {
  if (entries.capacity() * kScratchKeysPerEntry <= size_) scratch_ = std::move(entries);
}

/// Rebuilds the segment of `run` from these entries.
void RowIndex::put_back(Run run, uint32_t depth, uint32_t bucket_count,
                        std::span<const Entry> entries) {
  ++generation_;
  const Segment segment{take_buckets(bucket_count), bucket_count, depth};
  Bucket* const memory = buckets(segment);
  std::memset(static_cast<void*>(memory), 0, bucket_count * sizeof(Bucket));
  for (const Entry& entry : entries) {
    place(memory, bucket_count, home(segment, hash(entry.key)), entry.key, entry.row);
  }
  set_run(run, segment, uint32_t(entries.size()));
}

void RowIndex::resize(Run run, uint32_t bucket_count) {
  const uint32_t depth = directory_[run.begin].depth;
  std::vector<Entry> entries = take_out(run);
  put_back(run, depth, bucket_count, entries);
  give_back(std::move(entries));
}

void RowIndex::split(Run run) {
  const uint32_t depth = directory_[run.begin].depth;
  const uint32_t bucket_count = directory_[run.begin].bucket_count;
  std::vector<Entry> entries = take_out(run);
  const auto lower = [&](const Entry& entry) { return (hash(entry.key) << depth) >> 63 == 0; };
  const auto middle = std::partition(entries.begin(), entries.end(), lower);
  const size_t middle_entry = (run.begin + run.end) / 2;
  const std::span<const Entry> low(entries.begin(), middle);
  const std::span<const Entry> high(middle, entries.end());
  // A half that received all entries stays full, so that the insert splits it again. This happens
  // for bits of partitions that the core does not own, because all keys agree in them.
  const auto size_of = [&](std::span<const Entry> half) {
    return half.size() == entries.size() ? bucket_count : buckets_for(uint32_t(half.size()));
  };
  put_back({run.begin, middle_entry}, depth + 1, size_of(low), low);
  put_back({middle_entry, run.end}, depth + 1, size_of(high), high);
  give_back(std::move(entries));
  ++segment_count_;
}

bool RowIndex::may_double_directory() const {
  if (directory_bits_ < kDirectoryBitsMin) return true;
  return directory_bits_ < kDirectoryBitsMax &&
         directory_.size() * 2 <= segment_count_ * kDirectoryPerSegmentMax;
}

void RowIndex::double_directory() {
  std::vector<Segment> directory(directory_.size() * 2);
  std::vector<uint32_t> used(directory.size());
  for (size_t i = 0; i < directory_.size(); ++i) {
    directory[2 * i] = directory[2 * i + 1] = directory_[i];
    used[2 * i] = used_[i];
  }
  directory_ = std::move(directory);
  used_ = std::move(used);
  ++directory_bits_;
}

/// Calls visit(run, key, row) for the partition's keys. They lie in segments of its own, or in one
/// that it shares with other partitions.
template <typename Visit>
void RowIndex::visit_partition(PartitionId partition, uint32_t partition_bits,
                               Visit&& visit) const {
  const uint64_t first_hash = uint64_t(raw(partition)) << (64 - partition_bits);
  const uint64_t last_hash = first_hash | (~uint64_t(0) >> partition_bits);
  const size_t last = (last_hash >> 1) >> (63 - directory_bits_);
  for (size_t i = (first_hash >> 1) >> (63 - directory_bits_); i <= last;) {
    const Run run = run_of(i);
    const Segment& segment = directory_[run.begin];
    for (uint32_t b = 0; b < segment.bucket_count; ++b) {
      visit_bucket(buckets(segment)[b], [&](uint64_t key, uint32_t row) {
        if (partition_of(hash(key), partition_bits) == partition) visit(run, key, row);
      });
    }
    i = run.end;
  }
}

void RowIndex::entries_of(PartitionId partition, uint32_t partition_bits,
                          std::vector<Entry>& entries) const {
  entries.clear();
  entries.reserve(size_ >> partition_bits);
  visit_partition(partition, partition_bits, [&](Run, uint64_t key, uint32_t row) {
    entries.push_back({key, row});
  });
}

void RowIndex::erase_partition(PartitionId partition, uint32_t partition_bits) {
  std::vector<Run> runs;  // segments that hold any of its keys
  visit_partition(partition, partition_bits, [&](Run run, uint64_t, uint32_t) {
    if (runs.empty() || runs.back().begin != run.begin) runs.push_back(run);
  });
  for (const Run run : runs) {
    const uint32_t depth = directory_[run.begin].depth;
    std::vector<Entry> entries = take_out(run);
    size_ -= std::erase_if(entries, [&](const Entry& entry) {
      return partition_of(hash(entry.key), partition_bits) == partition;
    });
    put_back(run, depth, buckets_for(uint32_t(entries.size())), entries);
    give_back(std::move(entries));
  }
}

}  // namespace downpour::ps
