// Stable hashes. They are part of the file format and of the protocol, so they must never change.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "shared/base/ids.h"

namespace downpour {

/// splitmix64's finalizer (Steele, Lea, Flood 2014): a bijection of 64-bit words with full
/// avalanche.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Returns the inverse of mix64.
constexpr uint64_t unmix64(uint64_t x) {
  x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3ULL;
  x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089ULL;
  return (x ^ (x >> 30) ^ (x >> 60)) - 0x9e3779b97f4a7c15ULL;
}
static_assert(unmix64(mix64(0x0123456789abcdefULL)) == 0x0123456789abcdefULL);

constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return mix64(seed ^ mix64(value));
}

namespace hash_detail {

constexpr uint64_t bytes_of(const char* text, size_t size) {  // little-endian, size <= 8
  uint64_t word = 0;
  for (size_t i = 0; i < size; ++i) word |= uint64_t(uint8_t(text[i])) << (8 * i);
  return word;
}

/// Equal to bytes_of, but with whole loads: two overlapping loads for 4 to 7 bytes, three single
/// bytes for 1 to 3.
constexpr uint64_t word_of(const char* text, size_t size) {
  if (std::is_constant_evaluated() || std::endian::native != std::endian::little)
    return bytes_of(text, size);
  if (size >= 8) {
    uint64_t word = 0;
    __builtin_memcpy(&word, text, 8);
    return word;
  }
  if (size >= 4) {
    uint32_t low = 0;
    uint32_t high = 0;
    __builtin_memcpy(&low, text, 4);
    __builtin_memcpy(&high, text + size - 4, 4);
    return low | uint64_t(high) << (8 * (size - 4));
  }
  if (size == 0) return 0;
  return uint64_t(uint8_t(text[0])) | uint64_t(uint8_t(text[size / 2])) << (8 * (size / 2)) |
         uint64_t(uint8_t(text[size - 1])) << (8 * (size - 1));
}

constexpr uint64_t size_seed(size_t size, uint64_t seed) {
  return mix64(seed ^ (size * 0xff51afd7ed558ccdULL));
}

/// size_seed(size, 0) for sizes below 16.
inline constexpr std::array<uint64_t, 16> kSizeSeeds = [] {
  std::array<uint64_t, 16> seeds{};
  for (size_t size = 0; size < seeds.size(); ++size) seeds[size] = size_seed(size, 0);
  return seeds;
}();

/// One round of the hash: 8 bytes of text.
constexpr uint64_t add_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
  return hash ^ (hash >> 32);
}

}  // namespace hash_detail

/// Returns hash_string() before its last step: hash_string() is mix64 of this value.
constexpr uint64_t unmixed_hash_string(std::string_view text, uint64_t seed = 0) {
  if (seed == 0 && text.size() == 8)
    return hash_detail::add_word(hash_detail::kSizeSeeds[8], hash_detail::word_of(text.data(), 8));
  const bool is_short = seed == 0 && text.size() < hash_detail::kSizeSeeds.size();
  uint64_t hash =
      is_short ? hash_detail::kSizeSeeds[text.size()] : hash_detail::size_seed(text.size(), seed);
  for (; text.size() >= 8; text.remove_prefix(8))
    hash = hash_detail::add_word(hash, hash_detail::word_of(text.data(), 8));
  return hash ^ hash_detail::word_of(text.data(), text.size());
}

/// Returns the hash of a short string: a name, a small value or a vocabulary word. Hashes 8 bytes
/// per round; the size is part of the hash.
constexpr uint64_t hash_string(std::string_view text, uint64_t seed = 0) {
  return mix64(unmixed_hash_string(text, seed));
}

/// Which half of the partitions holds a table, in a job that trains its tables in two ways. Then
/// the highest bit of a partition's number is its group.
enum class RowGroup : uint8_t {
  kAll,    // the job has no groups: all partitions hold the table
  kSync,   // the lower half: a part is applied with its step
  kAsync,  // the upper half: a part is applied when it arrives
};

/// Returns the hash of a row (embedding key or dense block index) of a table. Its high bits select
/// the partition; the bits below them select the place in the partition's index.
constexpr uint64_t row_hash(TableId table, uint64_t key, RowGroup group = RowGroup::kAll) {
  const uint64_t x =
      (key ^ (uint64_t(raw(table)) << 56 | uint64_t(raw(table)) << 23)) * 0x9e3779b97f4a7c15ULL;
  const uint64_t hash = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  if (group == RowGroup::kAll) return hash;
  return hash >> 1 | uint64_t(group == RowGroup::kAsync) << 63;
}

/// Returns the partition of a row hash. `partition_bits` = log2(P), 1 to 16.
constexpr PartitionId partition_of(uint64_t hash, uint32_t partition_bits) {
  return PartitionId(uint32_t(hash >> (64 - partition_bits)));
}
/// Returns the group of one of `partitions` partitions, in a job with groups.
constexpr RowGroup group_of(PartitionId partition, uint32_t partitions) {
  return raw(partition) < partitions / 2 ? RowGroup::kSync : RowGroup::kAsync;
}

}  // namespace downpour
