#include "shared/data/values/unique.h"

#include <algorithm>
#include <array>
#include <bit>

#include "shared/base/check.h"

namespace downpour::data {
namespace {

constexpr size_t kSlotsAtStart = 1024;
constexpr uint32_t kSlotsPerKeyLog = 2;  // at least four, so most keys are in their first slot
constexpr size_t kBlock = 512;           // keys whose slots are computed together
constexpr size_t kAhead = 24;            // prefetch distance in keys (measured; hot path)

inline uint64_t spread(uint64_t key) {
  const uint64_t x = key * 0x9e3779b97f4a7c15ULL;
  return (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
}

}  // namespace

KeyIndex::KeyIndex() : slots_(kSlotsAtStart), shift_(64 - std::bit_width(kSlotsAtStart) + 1) {}

/// Returns how many bits the number of a key needs in a table of this size.
uint32_t KeyIndex::index_bits() const { return 64 - shift_ - kSlotsPerKeyLog; }

void KeyIndex::begin_batch() {
  if (++stamp_ < uint32_t{1} << (32 - index_bits())) return;
  std::fill(slots_.begin(), slots_.end(), 0);
  stamp_ = 1;
}

void KeyIndex::grow(std::span<const uint64_t> unique) {
  const size_t size = slots_.size() * 2;
  DP_CHECK(size <= size_t{1} << 32, unique.size());
  slots_.assign(size, 0);
  --shift_;
  stamp_ = 1;
  const uint32_t first = stamp_ << index_bits();
  for (uint32_t i = 0; i < unique.size(); ++i) {
    size_t at = spread(unique[i]) >> shift_;
    while (slots_[at] != 0) at = (at + 1) & (size - 1);
    slots_[at] = first + i;
  }
}

void KeyIndex::add(std::span<const uint64_t> keys, uint32_t* indices, std::vector<uint64_t>& unique,
                   uint64_t salt) {
  const size_t count = keys.size();
  size_t found = unique.size();
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    unique.resize(found + (end - begin));  // room for all, so that a new key needs no branch below
    uint64_t* const all = unique.data();
    while ((found + (end - begin)) << kSlotsPerKeyLog > slots_.size()) grow({all, found});
    uint32_t* const slots = slots_.data();
    const uint32_t bits = index_bits(), first = stamp_ << bits;
    const size_t mask = slots_.size() - 1;
    const uint32_t shift = shift_;
    std::array<uint32_t, kBlock + kAhead> places;
    for (size_t i = begin; i < end; ++i)
      places[i - begin] = uint32_t(spread(keys[i] + salt) >> shift);
    // Past the end, prefetch the first slot repeatedly, which costs nothing.
    std::fill_n(places.data() + (end - begin), kAhead, 0);
    for (size_t i = 0; i < kAhead; ++i) __builtin_prefetch(&slots[places[i]], 1);
    for (size_t i = begin; i < end; ++i) {
      __builtin_prefetch(&slots[places[i - begin + kAhead]], 1);
      const uint64_t key = keys[i] + salt;
      size_t at = places[i - begin];
      uint32_t index = slots[at] - first;              // too large if the slot has another stamp
      uint32_t taken = -uint32_t{index >> bits == 0};  // all bits set if the slot is taken
      while ((taken & uint32_t{all[index & taken] != key}) != 0) [[unlikely]] {
          at = (at + 1) & mask;
          index = slots[at] - first;
          taken = -uint32_t{index >> bits == 0};
        }
      const bool is_new = taken == 0;
      index = (uint32_t(found) & ~taken) | (index & taken);
      slots[at] = first + index;
      all[found] = key;
      found += is_new;
      indices[i] = index;
    }
  }
  unique.resize(found);
}

}  // namespace downpour::data
