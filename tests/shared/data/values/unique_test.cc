#include "shared/data/values/unique.h"

#include <map>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::data {
namespace {

TEST_CASE("keys are numbered by first appearance in each batch, like with a plain map", "[data]") {
  Rng rng(3);
  KeyIndex index;
  for (int round = 0; round < 300; ++round) {
    // Few or many distinct keys, dense or scattered, in several calls per batch. The table also
    // grows within a batch.
    const uint64_t distinct = 1 + rng.below(round % 50 == 49 ? 30'000 : 700);
    const bool wild = rng.below(2) == 0;
    index.begin_batch();
    std::vector<uint64_t> unique, want_unique;
    std::map<uint64_t, uint32_t> want;
    for (uint64_t call = 0; call < 1 + rng.below(3); ++call) {
      std::vector<uint64_t> keys(rng.below(4 * distinct));
      for (uint64_t& key : keys) {
        key = rng.below(distinct);
        if (wild) key = mix64(key) & ~uint64_t{0xffff};
      }
      std::vector<uint32_t> indices(keys.size());
      index.add(keys, indices.data(), unique);
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto [at, added] = want.try_emplace(keys[i], uint32_t(want.size()));
        if (added) want_unique.push_back(keys[i]);
        REQUIRE(indices[i] == at->second);
      }
    }
    REQUIRE(unique == want_unique);
  }
}

TEST_CASE("key 0 and the largest key are valid keys", "[data]") {
  KeyIndex index;
  index.begin_batch();
  std::vector<uint64_t> unique;
  std::vector<uint32_t> indices(4);
  index.add(std::vector<uint64_t>{UINT64_MAX, 0, UINT64_MAX, 0}, indices.data(), unique);
  CHECK(unique == std::vector<uint64_t>{UINT64_MAX, 0});
  CHECK(indices == std::vector<uint32_t>{0, 1, 0, 1});
}

TEST_CASE("a key of an old batch counts as new after the batch stamps wrap around", "[data]") {
  KeyIndex index;
  std::vector<uint64_t> unique;
  uint32_t number = 0;
  const std::vector<uint64_t> key = {0};
  // The initial table has 2^24 stamps.
  for (uint32_t batch = 0; batch <= 1U << 24; ++batch) {
    index.begin_batch();
    if (batch != 0 && batch < (1U << 24) - 1) continue;
    unique.clear();
    index.add(key, &number, unique);
    REQUIRE(unique == key);
    REQUIRE(number == 0);
  }
}

TEST_CASE("a salt makes the equal keys of two fields different", "[data]") {
  KeyIndex index;
  index.begin_batch();
  const std::vector<uint64_t> keys = {3, 5, 3};
  std::vector<uint32_t> indices(3);
  std::vector<uint64_t> unique;
  index.add(keys, indices.data(), unique);
  index.add(keys, indices.data(), unique, UINT64_MAX);
  CHECK(unique == std::vector<uint64_t>{3, 5, 2, 4});
  CHECK(indices == std::vector<uint32_t>{2, 3, 2});
}

}  // namespace
}  // namespace downpour::data
