#include "shared/data/unique.h"

#include <algorithm>
#include <bit>

namespace downpour::data {
namespace {

constexpr size_t kSlotsAtStart = 1024;
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
    slots_[at] = {.key = unique[i], .stamp = stamp_, .index = i};
  }
}

void KeyIndex::add(std::span<const uint64_t> keys, uint32_t* indices,
                   std::vector<uint64_t>& unique) {
  const size_t count = keys.size();
  size_t found = unique.size();
  unique.resize(found + count);  // room for all: whether a key is new is no branch below
  uint64_t* const all = unique.data();
  for (size_t i = 0; i < std::min(kAhead, count); ++i)
    __builtin_prefetch(&slots_[spread(keys[i]) >> shift_], 1);
  for (size_t i = 0; i < count; ++i) {
    // Prefetching past the end would read a key that is not there; the last one again costs
    // nothing.
    __builtin_prefetch(&slots_[spread(keys[std::min(i + kAhead, count - 1)]) >> shift_], 1);
    const uint64_t key = keys[i];
    const size_t mask = slots_.size() - 1;
    size_t at = spread(key) >> shift_;
    while (slots_[at].stamp == stamp_ && slots_[at].key != key) at = (at + 1) & mask;
    Slot& slot = slots_[at];
    const bool is_new = slot.stamp != stamp_;
    const uint32_t index = is_new ? uint32_t(found) : slot.index;
    slot = {.key = key, .stamp = stamp_, .index = index};
    all[found] = key;
    found += is_new;
    indices[i] = index;
    if (found * 2 > slots_.size()) [[unlikely]]
      grow({all, found});
  }
  unique.resize(found);
}

}  // namespace downpour::data
