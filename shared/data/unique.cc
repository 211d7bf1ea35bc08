#include "shared/data/unique.h"

#include <algorithm>
#include <array>
#include <bit>

namespace downpour::data {
namespace {

constexpr size_t kSlotsAtStart = 1024;
constexpr size_t kSlotsPerKey = 4;  // at least: most keys are in the first slot that is looked at
constexpr size_t kBlock = 512;      // keys whose places are found together
constexpr size_t kAhead = 24;  // slots prefetched before they are looked at (hot-path measurement)

inline uint64_t spread(uint64_t key) {
  const uint64_t x = key * 0x9e3779b97f4a7c15ULL;
  return (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
}

}  // namespace

KeyIndex::KeyIndex() : slots_(kSlotsAtStart), shift_(64 - std::bit_width(kSlotsAtStart) + 1) {}

void KeyIndex::begin_batch() {
  if (++stamp_ != 0) return;
  std::fill(slots_.begin(), slots_.end(), Slot{});  // once in 2^32 batches
  stamp_ = 1;
}

void KeyIndex::grow(std::span<const uint64_t> unique) {
  const size_t size = slots_.size() * 2;
  slots_.assign(size, Slot{});
  --shift_;
  for (uint32_t i = 0; i < unique.size(); ++i) {
    size_t at = spread(unique[i]) >> shift_;
    while (slots_[at].stamp == stamp_) at = (at + 1) & (size - 1);
    slots_[at] = {.stamp = stamp_, .index = i};
  }
}

void KeyIndex::add(std::span<const uint64_t> keys, uint32_t* indices,
                   std::vector<uint64_t>& unique) {
  const size_t count = keys.size();
  size_t found = unique.size();
  unique.resize(found + count);  // room for all: whether a key is new is no branch below
  uint64_t* const all = unique.data();
  const uint32_t stamp = stamp_;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    while ((found + (end - begin)) * kSlotsPerKey > slots_.size()) grow({all, found});
    Slot* const slots = slots_.data();
    const size_t mask = slots_.size() - 1;
    const uint32_t shift = shift_;
    std::array<uint32_t, kBlock + kAhead> places;
    for (size_t i = begin; i < end; ++i) places[i - begin] = uint32_t(spread(keys[i]) >> shift);
    // Prefetching past the end: the first slot, again and again, costs nothing.
    std::fill_n(places.data() + (end - begin), kAhead, 0);
    for (size_t i = 0; i < kAhead; ++i) __builtin_prefetch(&slots[places[i]], 1);
    for (size_t i = begin; i < end; ++i) {
      __builtin_prefetch(&slots[places[i - begin + kAhead]], 1);
      const uint64_t key = keys[i];
      size_t at = places[i - begin];
      Slot slot = slots[at];
      uint32_t taken = -uint32_t{slot.stamp == stamp};  // all bits
      while ((taken & uint32_t{all[slot.index & taken] != key}) != 0) [[unlikely]] {
          at = (at + 1) & mask;
          slot = slots[at];
          taken = -uint32_t{slot.stamp == stamp};
        }
      const bool is_new = taken == 0;
      const uint32_t index = (uint32_t(found) & ~taken) | (slot.index & taken);
      slots[at] = {.stamp = stamp, .index = index};
      all[found] = key;
      found += is_new;
      indices[i] = index;
    }
  }
  unique.resize(found);
}

}  // namespace downpour::data
