// Lookups: finds the rows of many keys while prefetches hide the memory latency.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ps/core/row_index.h"

namespace downpour::ps {

// Keys are processed in chunks. Each step is a loop over one chunk, so that its memory accesses
// overlap. When chunk c begins:
// - The home buckets of chunk c + 2 are prefetched.
// - The home buckets of chunk c + 1 are searched. After a miss the next bucket is prefetched.
// The caller prefetches the rows of a chunk before it uses the rows of the chunk before.
constexpr size_t kLookupChunk = 16;

/// Loads key i of a message, where keys may lie at any address.
inline uint64_t key_at(const void* keys, size_t i) {
  uint64_t key;
  std::memcpy(&key, static_cast<const uint8_t*>(keys) + i * sizeof key, sizeof key);
  return key;
}

/// Looks up keys chunk by chunk: call begin_chunk(c) for c = 0, 1, 2 ..., then row() for its keys
/// in any order.
class Lookups {
 public:
  Lookups(const RowIndex& index, const void* keys, size_t n)
      : index_(index), homes_(index), keys_(keys), n_(n), generation_(index.generation()) {
    fetch(0);
    fetch(1);
    search(0);
  }
  void begin_chunk(size_t chunk) {
    fetch(chunk + 2);
    search(chunk + 1);
  }
  /// Returns the row of key i, which must be in the chunk begun last, or kNoRow.
  [[gnu::always_inline]] uint32_t row(size_t i) const {
    const uint32_t row = rows_[i % kRing];
    if (row != kNoRow) [[likely]]
      return row;
    return find_further(i);
  }
  /// Call after an insert that precedes the look-up of key `next`: buckets may have moved. Rows
  /// never move.
  void on_insert(size_t next) {
    if (index_.generation() == generation_) return;
    generation_ = index_.generation();
    homes_ = RowIndex::Homes(index_);
    const size_t chunk = next / kLookupChunk;
    for (size_t c = chunk; c < chunk + 3; ++c) fetch(c);
  }

 private:
  static constexpr size_t kRing = 4 * kLookupChunk;

  void fetch(size_t chunk) {
    const size_t end = std::min(n_, (chunk + 1) * kLookupChunk);
    for (size_t i = chunk * kLookupChunk; i < end; ++i) {
      const Bucket* const home = homes_.of(key_at(keys_, i));
      home_[i % kRing] = home;
      __builtin_prefetch(home);
    }
  }
  void search(size_t chunk) {
    const size_t end = std::min(n_, (chunk + 1) * kLookupChunk);
    for (size_t i = chunk * kLookupChunk; i < end; ++i)
      rows_[i % kRing] = RowIndex::find_in(home_[i % kRing], key_at(keys_, i));
  }
  /// Finds a key that search() has not found in its home bucket: the key is in another bucket, is
  /// absent, or was inserted after the search.
  [[gnu::noinline]] uint32_t find_further(size_t i) const {
    const uint64_t key = key_at(keys_, i);
    return index_.find(key, index_.hash(key));
  }

  const RowIndex& index_;
  RowIndex::Homes homes_;
  const void* keys_;
  size_t n_;
  uint64_t generation_;
  const Bucket* home_[kRing];
  uint32_t rows_[kRing];
};

}  // namespace downpour::ps
