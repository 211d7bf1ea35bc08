// Bits: a set of partitions as words of 64 bits. Its visitors let inner loops run over whole words.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::ps {

/// Bit p % 64 of word p / 64 stands for partition p. The vector always has bits_for(P).size()
/// words. Bits from P on are 0.
using Bits = std::vector<uint64_t>;

inline Bits bits_for(uint32_t partition_count) { return Bits((partition_count + 63) / 64); }

inline bool contains(const Bits& bits, PartitionId p) {
  return (bits[raw(p) / 64] >> (raw(p) % 64) & 1) != 0;
}
inline void insert(Bits& bits, PartitionId p) { bits[raw(p) / 64] |= uint64_t{1} << (raw(p) % 64); }
inline void erase(Bits& bits, PartitionId p) {
  bits[raw(p) / 64] &= ~(uint64_t{1} << (raw(p) % 64));
}

inline bool none(const Bits& bits) {
  for (const uint64_t word : bits) {
    if (word != 0) return false;
  }
  return true;
}
/// Returns the smallest member. The set must not be empty.
inline PartitionId first(const Bits& bits) {
  size_t w = 0;
  while (bits[w] == 0) ++w;
  return PartitionId(uint32_t(w * 64) + uint32_t(std::countr_zero(bits[w])));
}
inline uint32_t count(const Bits& bits) {
  uint32_t n = 0;
  for (const uint64_t word : bits) n += uint32_t(std::popcount(word));
  return n;
}
/// Whether `a` and `b` share a member.
inline bool intersects(const Bits& a, const Bits& b) {
  for (size_t w = 0; w < a.size(); ++w) {
    if ((a[w] & b[w]) != 0) return true;
  }
  return false;
}
/// Whether every member of `a` is in `b`.
inline bool within(const Bits& a, const Bits& b) {
  for (size_t w = 0; w < a.size(); ++w) {
    if ((a[w] & ~b[w]) != 0) return false;
  }
  return true;
}

/// Calls visit(begin, end, word) for every word that is not 0. Bit p - begin of `word` stands for
/// partition p < end. Use it for loops over columns whose cost must not depend on how the members
/// are scattered; lane() keeps them branchless.
template <typename Visit>
void for_each_word(const Bits& bits, uint32_t partition_count, Visit&& visit) {
  for (size_t w = 0; w < bits.size(); ++w) {
    const auto begin = uint32_t(w * 64);
    if (bits[w] != 0) visit(begin, std::min(begin + 64, partition_count), bits[w]);
  }
}
/// Returns 1 if partition `p` is a member, otherwise 0. `word` is the word that begins at partition
/// `begin`.
inline uint64_t lane(uint64_t word, uint32_t begin, uint32_t p) { return word >> (p - begin) & 1; }

/// Calls visit(PartitionId) for every member, in ascending order.
template <typename Visit>
void for_each(const Bits& bits, Visit&& visit) {
  for (size_t w = 0; w < bits.size(); ++w) {
    for (uint64_t word = bits[w]; word != 0; word &= word - 1) {
      visit(PartitionId(uint32_t(w * 64) + uint32_t(std::countr_zero(word))));
    }
  }
}

}  // namespace downpour::ps
