#include "ps/core/watermarks.h"

#include <set>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::ps {
namespace {

Bits all_of(uint32_t n) {
  Bits bits = bits_for(n);
  for (uint32_t p = 0; p < n; ++p) insert(bits, PartitionId(p));
  return bits;
}

TEST_CASE("for_each() and for_each_word() visit the same partitions, also across words",
          "[ps][core]") {
  Rng rng(3);
  for (const uint32_t partitions : {2U, 63U, 64U, 65U, 256U}) {
    Bits bits = bits_for(partitions);
    for (uint32_t p = 0; p < partitions; ++p) {
      if (rng.below(2) == 0) insert(bits, PartitionId(p));
    }
    std::vector<uint32_t> members, by_word;
    for_each(bits, [&](PartitionId p) { members.push_back(raw(p)); });
    for_each_word(bits, partitions, [&](uint32_t begin, uint32_t end, uint64_t word) {
      for (uint32_t p = begin; p < end; ++p) {
        if (lane(word, begin, p) == 1) by_word.push_back(p);
      }
    });
    CHECK(members == by_word);
    CHECK(members.size() == count(bits));
  }
}

TEST_CASE("an interval set holds exactly its members, in the fewest intervals", "[ps][core]") {
  Rng rng(1);
  IntervalSet intervals, others;
  std::set<uint32_t> members, other_members;
  for (int i = 0; i < 400; ++i) {
    const auto x = uint32_t(rng.below(300));
    intervals.insert(x);
    members.insert(x);
    const auto y = uint32_t(rng.below(300));
    others.insert(y);
    other_members.insert(y);
    CHECK(intervals.size() == members.size());
  }
  uint32_t runs = 0;
  for (uint32_t x = 0; x < 300; ++x) {
    CHECK(intervals.contains(x) == members.contains(x));
    runs += members.contains(x) && !members.contains(x - 1) ? 1 : 0;
  }
  CHECK(intervals.intervals().size() == runs);
  IntervalSet united = intervals;
  united.unite(others);
  for (uint32_t x = 0; x < 300; ++x) {
    CHECK(united.contains(x) == (members.contains(x) || other_members.contains(x)));
  }
  CHECK(united.assign(united.intervals()));  // ascending, disjoint, not touching
  intervals.intersect(others);
  for (uint32_t x = 0; x < 300; ++x) {
    CHECK(intervals.contains(x) == (members.contains(x) && other_members.contains(x)));
  }
  CHECK_FALSE(intervals.assign({{3, 3}}));
  CHECK_FALSE(intervals.assign({{3, 5}, {5, 6}}));
}

TEST_CASE("the columns of a shard are freed when every partition has ended it", "[ps][core]") {
  const Bits all = all_of(8);
  Watermarks watermarks(8, {});
  watermarks.advance({0, 4, 0}, all, 10, 100, 1);
  Bits half = bits_for(8);
  for (uint32_t p = 0; p < 4; ++p) insert(half, PartitionId(p));
  watermarks.end({0, 4}, half, {.batches = 1}, 0);
  CHECK(watermarks.rows() == 1);
  CHECK(watermarks.watermark({0, 4}, PartitionId{3}) == wire::kShardEnded);
  CHECK(watermarks.watermark({0, 4}, PartitionId{4}) == 1);
  SECTION("because the other partitions end it too") {
    Bits rest = all;
    for_each(half, [&](PartitionId p) { erase(rest, p); });
    watermarks.end({0, 4}, rest, {.batches = 1}, 0);
  }
  SECTION("because the other partitions are dropped") {
    Bits rest = all;
    for_each(half, [&](PartitionId p) { erase(rest, p); });
    watermarks.drop(rest);
    CHECK(watermarks.watermark({0, 4}, PartitionId{4}) == 0);
  }
  CHECK(watermarks.rows() == 0);
  CHECK(watermarks.watermark({0, 4}, PartitionId{3}) == wire::kShardEnded);
  // New columns from reused memory, for a partition that lacks the shard. The others still know
  // that they have ended it.
  Bits last = bits_for(8);
  insert(last, PartitionId{7});
  watermarks.drop(last);
  watermarks.advance({0, 4, 0}, last, 1, 1, 1);
  CHECK(watermarks.watermark({0, 4}, PartitionId{7}) == 1);
  CHECK(watermarks.watermark({0, 4}, PartitionId{0}) == wire::kShardEnded);
  CHECK(watermarks.find({0, 4})->records[7] == 1);
}

TEST_CASE("contradictory images are refused", "[ps][core]") {
  const Watermarks watermarks(8, {.epochs_open_max = 2});
  checkpoint::PartitionImage image;
  image.epochs = {{.epoch = 1, .shards_ended = 2, .counts = {}, .metrics = {}, .ended = {{0, 2}}}};
  image.shards = {{.shard = {1, 2}, .watermark = 1}};
  CHECK(watermarks.check(image, 0));
  SECTION("a count that differs from the intervals") { image.epochs[0].shards_ended = 3; }
  SECTION("a shard that is open and ended") { image.shards[0].shard.shard = 1; }
  SECTION("a shard that is not begun") { image.shards[0].watermark = 0; }
  SECTION("epochs out of order") { image.epochs.push_back(image.epochs[0]); }
  SECTION("more epochs than the limit") {
    image.shards.push_back({.shard = {2, 0}, .watermark = 1});
    image.shards.push_back({.shard = {3, 0}, .watermark = 1});
    CHECK(watermarks.check(image, 2));  // sealed epochs do not count
  }
  CHECK_FALSE(watermarks.check(image, 0));
}

}  // namespace
}  // namespace downpour::ps
