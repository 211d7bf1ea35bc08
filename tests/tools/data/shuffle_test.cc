// ExternalShuffle returns every record once, in a uniformly random order, in bounded memory.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "shared/base/rng.h"
#include "tests/tools/data/support.h"
#include "tools/data/external_shuffle.h"

namespace downpour::tools {
namespace {

using Order = std::vector<uint32_t>;

/// Shuffles the numbers 0 to count - 1 as records of `bytes` to `bytes` + 6 bytes, and returns
/// their order.
Order shuffled(const ScratchDir& dir, uint32_t count, size_t bytes, uint64_t memory,
               uint64_t expected, uint64_t seed) {
  ExternalShuffle shuffle(
      {.folder = dir.path(), .memory_bytes = memory, .expected_bytes = expected, .seed = seed});
  std::string record;
  for (uint32_t i = 0; i < count; ++i) {
    record.assign(bytes + i % 7, char(i));
    std::memcpy(record.data(), &i, sizeof i);
    REQUIRE(shuffle.add(record));
  }
  CHECK(shuffle.records() == count);
  Order order;
  bool whole = true;
  const auto drained = shuffle.drain([&](std::string_view given) -> Result<void> {
    uint32_t i;
    std::memcpy(&i, given.data(), sizeof i);
    whole &= given.size() == bytes + i % 7 &&
             std::all_of(given.begin() + 4, given.end(), [&](char c) { return c == char(i); });
    order.push_back(i);
    return {};
  });
  REQUIRE(drained);
  CHECK(whole);
  return order;
}

bool is_permutation_of_all(Order order, uint32_t count) {
  std::sort(order.begin(), order.end());
  for (uint32_t i = 0; i < order.size(); ++i)
    if (order[i] != i) return false;
  return order.size() == count;
}

TEST_CASE(
    "each record is returned once: in memory, through buckets, and through buckets of buckets",
    "[tools][shuffle]") {
  const ScratchDir dir;
  constexpr uint32_t kCount = 60'000;
  constexpr uint64_t kBytes = uint64_t{kCount} * 107;
  // All in memory; a correct estimate of the size; an estimate that is far too small, so that the
  // buckets are split again; an estimate that is far too large.
  for (const auto& [memory, expected] : std::vector<std::pair<uint64_t, uint64_t>>{
           {64 << 20, kBytes}, {1 << 20, kBytes}, {256 << 10, 1}, {1 << 20, kBytes * 1000}}) {
    INFO(memory << " " << expected);
    const Order order = shuffled(dir, kCount, 100, memory, expected, 7);
    CHECK(is_permutation_of_all(order, kCount));
    CHECK(std::filesystem::is_empty(dir.path()));
    uint32_t stayed = 0;
    for (uint32_t i = 0; i < kCount; ++i) stayed += order[i] == i;
    CHECK(stayed < 20);  // the expected number is 1
  }
}

TEST_CASE("the same seed gives the same order, and another seed gives another order",
          "[tools][shuffle]") {
  const ScratchDir dir;
  const auto order = [&](uint64_t seed) { return shuffled(dir, 5000, 50, 100'000, 250'000, seed); };
  CHECK(order(3) == order(3));
  CHECK(order(3) != order(4));
}

TEST_CASE(
    "every order of a few records is equally likely, and so is every position of many records",
    "[tools][shuffle]") {
  const ScratchDir dir;
  SECTION("all 24 orders of 4 records, through buckets") {
    std::map<Order, int> met;
    constexpr int kTimes = 4800;
    for (int i = 0; i < kTimes; ++i) ++met[shuffled(dir, 4, 40, 400, 300, uint64_t(i) + 1)];
    REQUIRE(met.size() == 24);
    double chi2 = 0;
    for (const auto& [order, times] : met)
      chi2 += (times - kTimes / 24.0) * (times - kTimes / 24.0) / (kTimes / 24.0);
    CHECK(chi2 < 55.0);  // 23 degrees of freedom: exceeded by chance once in 5,000
  }
  SECTION("positions of 20 blocks of 2,000 records") {
    constexpr uint32_t kCount = 2000, kBlocks = 20, kTimes = 10;
    std::vector<std::vector<double>> cells(kBlocks, std::vector<double>(kBlocks));
    for (uint32_t t = 0; t < kTimes; ++t) {
      const Order order = shuffled(dir, kCount, 60, 40'000, 120'000, 100 + t);
      for (uint32_t place = 0; place < kCount; ++place)
        ++cells[order[place] * kBlocks / kCount][place * kBlocks / kCount];
    }
    const double expected = double(kCount) * kTimes / (kBlocks * kBlocks);
    double chi2 = 0;
    for (const auto& row : cells)
      for (const double n : row) chi2 += (n - expected) * (n - expected) / expected;
    CHECK(chi2 < 470);  // 361 degrees of freedom: mean + 4 standard deviations of 27
    CHECK(chi2 > 252);  // and not too even
  }
}

TEST_CASE("a folder that is not writable is reported with its path", "[tools][shuffle]") {
  ExternalShuffle shuffle(
      {.folder = "/nowhere/at/all", .memory_bytes = 64, .expected_bytes = 10'000, .seed = 1});
  Result<void> added;
  for (int i = 0; i < 400'000 && added; ++i) added = shuffle.add("a record of some bytes");
  REQUIRE_FALSE(added);
  CHECK(added.error().where == "/nowhere/at/all");
}

}  // namespace
}  // namespace downpour::tools
