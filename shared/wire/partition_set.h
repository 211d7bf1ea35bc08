// PartitionSet: partitions as a bit set, as messages carry them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::wire {

/// A set of partitions: bit p % 64 of word p / 64.
struct PartitionSet {
  std::vector<uint64_t> words;
  bool operator==(const PartitionSet&) const = default;
  bool contains(PartitionId p) const {
    const uint32_t i = raw(p);
    return i / 64 < words.size() && (words[i / 64] >> (i % 64) & 1) != 0;
  }
  void insert(PartitionId p) {
    const uint32_t i = raw(p);
    if (words.size() <= i / 64) words.resize(i / 64 + 1);
    words[i / 64] |= uint64_t(1) << (i % 64);
  }
  template <typename Visit>  // visit(PartitionId), ascending
  void for_each(Visit&& visit) const {
    for (size_t w = 0; w < words.size(); ++w) {
      for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
        visit(PartitionId(uint32_t(w * 64 + size_t(__builtin_ctzll(bits)))));
      }
    }
  }
  uint32_t size() const {
    uint32_t n = 0;
    for (const uint64_t w : words) n += uint32_t(__builtin_popcountll(w));
    return n;
  }
};

}  // namespace downpour::wire
