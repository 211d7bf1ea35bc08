#include "ps/core/row_index.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kPartitionBits = 4;

void insert(RowIndex& index, uint64_t key, uint32_t row) {
  index.insert(key, index.hash(key), row);
}
std::vector<RowIndex::Entry> entries_of(const RowIndex& index, uint32_t partition, uint32_t bits) {
  std::vector<RowIndex::Entry> entries;
  index.entries_of(PartitionId(partition), bits, entries);
  return entries;
}
uint32_t find(const RowIndex& index, uint64_t key) { return index.find(key, index.hash(key)); }

/// Returns the key whose row hash is `hash`. row_hash() is a bijection, so colliding keys can be
/// made.
uint64_t key_with_hash(TableId table, uint64_t hash) {
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;  // Newton's method doubles the correct low bits
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  uint64_t x = hash * inverse(0xd6e8feb86659fd93ULL);
  x ^= x >> 32;
  x *= inverse(0x9e3779b97f4a7c15ULL);
  return x ^ (uint64_t(raw(table)) << 56 | uint64_t(raw(table)) << 23);
}

/// Returns the share of keys that lie in their home bucket, where a look-up ends at once.
template <typename Key>
double share_at_home(const RowIndex& index, uint32_t keys, Key&& key) {
  uint32_t at_home = 0;
  for (uint32_t i = 0; i < keys; ++i)
    at_home += RowIndex::Homes(index).of(key(i))->match(key(i)) != 0;
  return double(at_home) / keys;
}

}  // namespace

TEST_CASE("the index agrees with a map under random inserts, look-ups and dropped partitions",
          "[ps][table]") {
  const TableId table{3};
  RowIndex index(table, 5);
  std::unordered_map<uint64_t, uint32_t> model;
  Rng rng(11);
  uint32_t next_row = 0;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 3000; ++i) {
      const uint64_t key = rng.below(3) == 0 ? rng.below(5000) : rng.next();
      const auto known = model.find(key);
      REQUIRE(find(index, key) == (known == model.end() ? kNoRow : known->second));
      if (known != model.end()) continue;
      insert(index, key, next_row);
      model.emplace(key, next_row++);
    }
    if (round % 7 == 6) {
      const auto dropped = PartitionId(uint32_t(rng.below(1 << kPartitionBits)));
      index.erase_partition(dropped, kPartitionBits);
      std::erase_if(model, [&](const auto& entry) {
        return partition_of(index.hash(entry.first), kPartitionBits) == dropped;
      });
    }
    REQUIRE(index.size() == model.size());
  }
  size_t seen = 0;
  for (uint32_t p = 0; p < 1U << kPartitionBits; ++p) {
    for (const auto& entry : entries_of(index, p, kPartitionBits)) {
      REQUIRE(partition_of(index.hash(entry.key), kPartitionBits) == PartitionId(p));
      REQUIRE(model.at(entry.key) == entry.row);
      ++seen;
    }
  }
  CHECK(seen == model.size());  // all partitions together hold every key once
}

TEST_CASE("any key is valid, including the smallest and the largest", "[ps][table]") {
  RowIndex index(TableId{0}, 0);
  for (const uint64_t key : {uint64_t(0), UINT64_MAX, uint64_t(1)})
    CHECK(find(index, key) == kNoRow);
  insert(index, UINT64_MAX, 5);
  CHECK(find(index, 0) == kNoRow);
  insert(index, 0, 6);
  CHECK(find(index, UINT64_MAX) == 5);
  CHECK(find(index, 0) == 6);
}

TEST_CASE("a core that owns few partitions spreads keys as well as one that owns all",
          "[ps][table]") {
  const TableId table{9};
  constexpr uint32_t kBits = 8;
  for (const uint32_t every : {1, 16, 256}) {
    for (const uint32_t keys : {500, 12'000, 150'000}) {  // one small segment to many large ones
      INFO("every " << every << "th partition, " << keys << " keys");
      RowIndex index(table, 7);
      std::vector<uint64_t> known;
      for (uint64_t key = 0; known.size() < keys; ++key) {
        if (raw(partition_of(index.hash(key), kBits)) % every != every / 2) continue;
        insert(index, key, uint32_t(known.size()));
        known.push_back(key);
      }
      for (uint32_t i = 0; i < keys; ++i) REQUIRE(find(index, known[i]) == i);
      CHECK(share_at_home(index, keys, [&](uint32_t i) { return known[i]; }) > 0.8);
      CHECK(index.bytes() < 40 * keys + 300'000);  // the size of the directory is limited
    }
  }
}

TEST_CASE("keys made to share all but the lowest bits of their hash are still spread",
          "[ps][table]") {
  const TableId table{1};
  RowIndex index(table, 0x5eed);
  constexpr uint32_t kKeys = 100'000;
  const auto key = [&](uint32_t i) { return key_with_hash(table, ~uint64_t(0) << 20 | i); };
  for (uint32_t i = 0; i < kKeys; ++i) insert(index, key(i), i);
  for (uint32_t i = 0; i < kKeys; ++i) REQUIRE(find(index, key(i)) == i);
  CHECK(find(index, key(kKeys)) == kNoRow);
  CHECK(share_at_home(index, kKeys, key) > 0.8);
  CHECK(entries_of(index, 15, 4).size() == kKeys);
  CHECK(entries_of(index, 0, 4).empty());
  index.erase_partition(PartitionId{15}, 4);
  CHECK(index.size() == 0);
  CHECK(find(index, key(0)) == kNoRow);
}

TEST_CASE("a full bucket overflows into the next ones, also around the end of the segment",
          "[ps][table]") {
  const TableId table{1};
  // 40 keys in a handful of buckets. With 200 salts, the last bucket overflows in some cases.
  for (uint64_t salt = 0; salt < 200; ++salt) {
    RowIndex index(table, salt);
    for (uint32_t i = 0; i < 40; ++i) insert(index, i, i);
    for (uint32_t i = 0; i < 40; ++i) REQUIRE(find(index, i) == i);
    REQUIRE(find(index, 40) == kNoRow);
    REQUIRE(entries_of(index, 0, 1).size() + entries_of(index, 1, 1).size() == 40);
  }
}

TEST_CASE("the same salt gives the same index, another salt a different one", "[ps][table]") {
  const auto order = [](uint64_t salt) {
    RowIndex index(TableId{2}, salt);
    for (uint32_t i = 0; i < 1000; ++i) insert(index, i, i);
    return entries_of(index, 0, 1);
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
}

TEST_CASE("the index takes 24 bytes per key on average at any size", "[ps][table]") {
  RowIndex index(TableId{4}, 0);
  double sum = 0;
  int samples = 0;
  uint64_t next_sample = 1000;
  for (uint32_t i = 0; i < 4'000'000; ++i) {
    insert(index, mix64(i), i);
    if (index.size() != next_sample) continue;
    const double bytes = double(index.bytes()) / double(index.size());
    CHECK(bytes < 30.0);
    sum += bytes;
    ++samples;
    next_sample += next_sample / 16;
  }
  INFO("samples " << samples);
  CHECK(sum / samples <= 24.0);
}

}  // namespace downpour::ps
