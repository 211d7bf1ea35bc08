#include "shared/plan/shard.h"

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/plan/plan_hash.h"
#include "shared/plan/range_limits.h"

namespace downpour::plan {
namespace {

TEST_CASE("an open stream has a piece at every position, in order", "[plan]") {
  const FileInfo file{.path = "exec: x", .bytes = kOpenEnd, .splittable = false, .cuts = {640}};
  REQUIRE(file.is_open());
  REQUIRE(file.is_streamed());
  const std::vector<ShardRange> ranges = cut_shards({file}, 1);
  REQUIRE(ranges == std::vector<ShardRange>{{.file = 0, .begin = 0, .end = 640}});
  const ShardMap shards(ranges, 7, {.in_order = true, .open_piece = 640});
  CHECK(shards.count() == kOpenShardsMax);
  for (const uint32_t place : {0U, 1U, 77U, kOpenShardsMax - 1}) {
    const std::vector<ShardRange> at = shards.at(3, place);
    REQUIRE(at.size() == 1);
    CHECK(at[0] == ShardRange{.file = 0,
                              .begin = uint64_t{640} * place,
                              .end = uint64_t{640} * place + 640,
                              .records_before = uint64_t{640} * place});
  }
}

TEST_CASE("files that make too many ranges are an error before any range is made", "[plan]") {
  const auto file = [](uint64_t bytes) { return FileInfo{.path = "f", .bytes = bytes}; };
  const auto fits = [](const std::vector<FileInfo>& files, uint64_t target,
                       const StreamSpec& streams = {}) {
    return check_ranges(files, target, streams).has_value();
  };
  CHECK(fits({file(uint64_t{kRangesMax} * 10)}, 10));
  CHECK_FALSE(fits({file(uint64_t{kRangesMax} * 10 + 1)}, 10));
  CHECK(fits({file(UINT64_MAX)}, UINT64_MAX));
  CHECK(fits({file(0), file(1)}, UINT64_MAX));
  CHECK_FALSE(fits({file(UINT64_MAX)}, 1));
  CHECK_FALSE(fits({file(5)}, 0));
  // fifty claims whose sum does not fit into 64 bits
  CHECK_FALSE(fits(std::vector(50, file(uint64_t{1} << 62)), 64 << 20));
  CHECK_FALSE(fits(std::vector<FileInfo>(kRangesMax + size_t{1}), 1));
  const StreamSpec copies{StreamPolicy::kCopies, 3}, by_file{StreamPolicy::kFiles, 3};
  CHECK(fits({file(kRangesMax)}, 4, copies));
  CHECK_FALSE(fits({file(kRangesMax)}, 1, copies));
  CHECK(fits({file(kRangesMax)}, 1, by_file));
  const Error error = check_ranges({file(uint64_t{1} << 50)}, 1 << 20, {}).error();
  CHECK(error.code == ErrorCode::kConfig);
  CHECK(error.where == "data.shard_records");
  CHECK(error.what ==
        "1.0 PiB in 1 file would give 1,073,741,824 shards of 1.0 MiB; the maximum is 1,048,576");
  CHECK(error.hint ==
        "raise data.shard_records so that a shard has more than 1.0 GiB, or use fewer and larger "
        "files");
}

TEST_CASE("cuts outside their file or out of order are an error", "[plan]") {
  const auto fits = [](uint64_t bytes, std::vector<uint64_t> cuts) {
    return check_ranges({{.path = "f", .bytes = bytes, .cuts = std::move(cuts)}}, 1 << 20, {})
        .has_value();
  };
  CHECK(fits(10, {1, 5, 9}));
  CHECK_FALSE(fits(10, {0, 5}));
  CHECK_FALSE(fits(10, {5, 10}));
  CHECK_FALSE(fits(10, {5, 5}));
  CHECK_FALSE(fits(10, {6, 5}));
  CHECK(fits(kOpenEnd, {64}));
  CHECK_FALSE(fits(kOpenEnd, {}));
}

TEST_CASE("order_inverse undoes the order of shards, which is a permutation", "[plan]") {
  for (const uint32_t count : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 1000U, 4097U}) {
    for (const uint32_t epoch : {0U, 1U, 7U}) {
      std::vector<bool> seen(count);
      for (uint32_t place = 0; place < count; ++place) {
        const uint32_t range = order_at(42, epoch, count, place);
        REQUIRE(range < count);
        REQUIRE_FALSE(seen[range]);
        seen[range] = true;
        REQUIRE(order_inverse(42, epoch, count, range) == place);
      }
    }
  }
}

TEST_CASE("the order is a permutation for the largest number of shards, too", "[plan]") {
  constexpr uint32_t kMax = 0xffffffffU;
  for (const uint32_t place : {0U, 1U, kMax / 2, kMax - 1}) {
    CHECK(order_inverse(3, 2, kMax, order_at(3, 2, kMax, place)) == place);
  }
}

TEST_CASE("the order of shards never changes between releases", "[plan]") {
  // Checkpoints store watermarks by position in this order. With another order they would be read
  // as those of other shards.
  std::vector<uint32_t> order;
  for (uint32_t place = 0; place < 8; ++place) order.push_back(order_at(1, 0, 8, place));
  CHECK(order == std::vector<uint32_t>{5, 2, 7, 1, 3, 4, 6, 0});
}

TEST_CASE("over many epochs every range is equally often at every position", "[plan]") {
  constexpr uint32_t kCount = 5, kEpochs = 20000;
  std::map<std::pair<uint32_t, uint32_t>, int> hits;
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (uint32_t place = 0; place < kCount; ++place)
      ++hits[{place, order_at(9, epoch, kCount, place)}];
  }
  // 4000 expected, standard deviation 57; the limit is six of them
  for (const auto& [at, n] : hits) CHECK(std::abs(n - 4000) < 340);
  CHECK(hits.size() == kCount * kCount);
}

TEST_CASE("every order of four ranges is equally likely, over epochs and over seeds", "[plan]") {
  constexpr uint32_t kTimes = 48'000, kOrders = 24;
  for (const bool over_epochs : {true, false}) {
    std::map<std::vector<uint32_t>, double> met;
    for (uint32_t i = 0; i < kTimes; ++i) {
      std::vector<uint32_t> order;
      for (uint32_t place = 0; place < 4; ++place)
        order.push_back(over_epochs ? order_at(3, i, 4, place) : order_at(i, 0, 4, place));
      ++met[order];
    }
    CHECK(met.size() == kOrders);
    double chi2 = 0;
    const double expected = double(kTimes) / kOrders;
    for (const auto& [order, n] : met) chi2 += (n - expected) * (n - expected) / expected;
    CHECK(chi2 < 55);  // 23 degrees of freedom: exceeded by chance once in 5,000 runs
  }
}

TEST_CASE("another seed or epoch gives another order", "[plan]") {
  const auto order = [](uint64_t seed, uint32_t epoch) {
    std::vector<uint32_t> places;
    for (uint32_t i = 0; i < 50; ++i) places.push_back(order_at(seed, epoch, 50, i));
    return places;
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(2, 0));
}

TEST_CASE("ranges tile every file evenly and never cut an unsplittable file", "[plan]") {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<FileInfo> files;
    for (uint64_t i = 0; i < 1 + rng.below(4); ++i) {
      files.push_back({.path = "f", .bytes = 1 + rng.below(1000), .splittable = rng.below(3) > 0});
    }
    const uint64_t target = 1 + rng.below(300);
    std::vector<uint64_t> at(files.size()), pieces(files.size());
    uint32_t last_file = 0;
    for (const ShardRange& range : cut_shards(files, target)) {
      REQUIRE(range.file >= last_file);
      last_file = range.file;
      REQUIRE(range.begin == at[range.file]);
      REQUIRE(range.end > range.begin);
      if (files[range.file].splittable) REQUIRE(range.end - range.begin <= target);
      at[range.file] = range.end;
      ++pieces[range.file];
    }
    for (size_t i = 0; i < files.size(); ++i) {
      CHECK(at[i] == files[i].bytes);
      if (!files[i].splittable) CHECK(pieces[i] == 1);
    }
  }
}

TEST_CASE("held-out records are read in ranges as long as a shard that joins ranges", "[plan]") {
  const ShardRecipe joining{.cycle = 8};
  CHECK(cut_held_out({{.path = "a", .bytes = 6400}}, joining, 10) ==
        cut_shards({{.path = "a", .bytes = 6400}}, 80));
  // The number of each record is known only for the pieces that were counted.
  const FileInfo counted{.path = "a", .bytes = 30, .records_before = {0, 4, 9}};
  CHECK(cut_held_out({counted}, joining, 10) == cut_shards({counted}, 10));
}

TEST_CASE("the plan hash depends on values, on names and on their order", "[plan]") {
  const uint64_t hash = PlanHash().add("seed", 1).add("batch", 2).value();
  CHECK(hash == PlanHash().add("seed", 1).add("batch", 2).value());
  CHECK(hash != PlanHash().add("batch", 2).add("seed", 1).value());
  CHECK(hash != PlanHash().add("seed", 2).add("batch", 1).value());
  CHECK(PlanHash().add("a", "b").value() != PlanHash().add("a", "c").value());
}

TEST_CASE("a file with cuts is cut there, for every target size", "[plan]") {
  const std::vector<FileInfo> files = {{.path = "a", .bytes = 100, .cuts = {7, 50}},
                                       {.path = "b", .bytes = 10}};
  for (const uint64_t target : {uint64_t{1000}, uint64_t{10}}) {
    CHECK(cut_shards(files, target) ==
          std::vector<ShardRange>{{0, 0, 7}, {0, 7, 50}, {0, 50, 100}, {1, 0, 10}});
  }
}

TEST_CASE("a piece without a chosen record is not a range of any stream", "[plan]") {
  const std::vector<FileInfo> files = {
      {.path = "a", .bytes = 20, .records_before = {kNotChosen, 4}},
      {.path = "b", .bytes = 30, .records_before = {9, 12, kNotChosen}},
      {.path = "c", .bytes = 90, .records_before = {kNotChosen}}};
  const std::vector<ShardRange> left = {{0, 10, 20, 4}, {1, 0, 10, 9}, {1, 10, 20, 12}};
  CHECK(cut_shards(files, 10) == left);
  CHECK(cut_streams(files, 10, {}) == left);
  CHECK(cut_streams(files, 10, {StreamPolicy::kRecords, 3}).size() == 9);
  for (const FileInfo& file : files) CHECK(file.leaves_out());
  const FileInfo open = {.path = "exec: x",
                         .bytes = kOpenEnd,
                         .splittable = false,
                         .cuts = {8},
                         .records_before = {kNotChosen}};
  CHECK_FALSE(open.leaves_out());
  CHECK(cut_shards({open}, 10).size() == 1);
}

TEST_CASE(
    "streams are files, numbered records or copies; a single stream has the ranges of cut_shards",
    "[plan]") {
  const std::vector<FileInfo> files = {{.path = "a", .bytes = 20, .records_before = {0, 4}},
                                       {.path = "b", .bytes = 10, .records_before = {9}},
                                       {.path = "c", .bytes = 10, .records_before = {11}}};
  const auto whole = cut_shards(files, 10);
  REQUIRE(whole.size() == 4);
  CHECK(whole[1].records_before == 4);
  CHECK(whole[3].records_before == 11);
  CHECK(cut_streams(files, 10, {}) == whole);

  const auto by_file = cut_streams(files, 10, {StreamPolicy::kFiles, 2});
  REQUIRE(by_file.size() == 4);
  for (const ShardRange& range : by_file) CHECK(range.stream == range.file % 2);

  for (const auto policy : {StreamPolicy::kRecords, StreamPolicy::kCopies}) {
    const auto streams = cut_streams(files, 10, {policy, 3});
    REQUIRE(streams.size() == 12);
    for (size_t i = 0; i < 12; ++i) {
      CHECK(streams[i].stream == i / 4);
      CHECK(streams[i].begin == whole[i % 4].begin);
      CHECK(streams[i].records_before == whole[i % 4].records_before);
      CHECK(streams[i].modulus == (policy == StreamPolicy::kRecords ? 3U : 1U));
    }
  }
}

}  // namespace
TEST_CASE("every range is in exactly one shard of each epoch, and place_of finds that shard",
          "[plan]") {
  const std::vector<FileInfo> files = {{.path = "a", .bytes = 95}, {.path = "b", .bytes = 41}};
  for (const StreamPolicy policy :
       {StreamPolicy::kOne, StreamPolicy::kFiles, StreamPolicy::kRecords, StreamPolicy::kCopies}) {
    const auto ranges = cut_streams(files, 5, {policy, 2});
    for (const uint32_t cycle : {1U, 2U, 7U, 256U}) {
      const ShardMap shards(ranges, 11, cycle);
      for (uint32_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<int> met(ranges.size());
        for (uint32_t place = 0; place < shards.count(); ++place) {
          const auto indexes = shards.indexes_at(epoch, place);
          REQUIRE_FALSE(indexes.empty());
          CHECK(indexes.size() <= cycle);
          CHECK(shards.at(epoch, place).front() == ranges[indexes.front()]);
          for (const uint32_t i : indexes) {
            ++met[i];
            CHECK(ranges[i].stream == ranges[indexes.front()].stream);
            CHECK(shards.place_of(epoch, i) == place);
          }
        }
        CHECK(met == std::vector<int>(ranges.size(), 1));
      }
    }
  }
}

TEST_CASE("shares divide the ranges of each stream evenly, other ones in each epoch", "[plan]") {
  const auto map_of = [](std::vector<uint32_t> ranges_of_stream, uint32_t shares) {
    std::vector<ShardRange> ranges;
    for (uint32_t stream = 0; stream < ranges_of_stream.size(); ++stream) {
      for (uint32_t i = 0; i < ranges_of_stream[stream]; ++i)
        ranges.push_back({.begin = ranges.size(), .end = ranges.size() + 1, .stream = stream});
    }
    return ShardMap(std::move(ranges), 7, ShardRecipe{.cycle = 3, .shares = shares});
  };
  for (const auto& [ranges, shares, count] : {std::tuple(std::vector{64U}, 4U, 4U),
                                              {{66U}, 4U, 4U},
                                              {{5U}, 4U, 4U},
                                              {{4U}, 4U, 4U},
                                              {{3U}, 4U, 3U},
                                              {{257U}, 256U, 256U},
                                              {{1U}, 1U, 1U},
                                              {{16U, 5U, 1U}, 1U, 3U},
                                              {{9U, 0U, 7U}, 2U, 4U}}) {
    CAPTURE(ranges, shares);
    const ShardMap shards = map_of(ranges, shares);
    REQUIRE(shards.count() == count);
    CHECK(shards.joins());
    for (const uint32_t epoch : {0U, 1U}) {
      std::vector<int> seen(shards.ranges().size());
      for (uint32_t place = 0; place < count; ++place) {
        const std::vector<uint32_t> indexes = shards.indexes_at(epoch, place);
        REQUIRE_FALSE(indexes.empty());
        const uint32_t stream = shards.ranges()[indexes[0]].stream;
        const uint32_t least = ranges[stream] / shares;
        CHECK((indexes.size() == least || indexes.size() == least + 1));
        for (const uint32_t index : indexes) {
          ++seen[index];
          CHECK(shards.ranges()[index].stream == stream);
          CHECK(shards.place_of(epoch, index) == place);
        }
      }
      CHECK(std::ranges::all_of(seen, [](int n) { return n == 1; }));
    }
  }
  const ShardMap shards = map_of({64}, 4);
  CHECK(shards.indexes_at(0, 0) != shards.indexes_at(1, 0));
}

TEST_CASE("a cycle combines ranges from all over the data, different ones in each epoch",
          "[plan]") {
  const auto ranges = cut_shards({{.path = "a", .bytes = 6400}}, 10);
  const ShardMap shards(ranges, 3, 8);
  REQUIRE(shards.count() == 80);
  int apart = 0, again = 0;
  for (uint32_t place = 0; place < shards.count(); ++place) {
    const auto indexes = shards.indexes_at(0, place);
    const auto [low, high] = std::minmax_element(indexes.begin(), indexes.end());
    apart += *high - *low > 320 ? 1 : 0;  // true by chance for all but 7 in 1,000 draws of eight
    again += shards.indexes_at(1, place) == indexes ? 1 : 0;
  }
  CHECK(apart > 70);
  CHECK(again == 0);
  const ShardMap single(ranges, 3);
  for (uint32_t place = 0; place < 640; ++place)
    CHECK(single.indexes_at(2, place) == std::vector{order_at(3, 2, 640, place)});
}

TEST_CASE("the shards of a stream keep its order in every epoch", "[plan]") {
  const ShardMap shards(cut_shards({{.path = "a", .bytes = 100}}, 10), 3,
                        ShardRecipe{.in_order = true});
  REQUIRE(shards.count() == 10);
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (uint32_t place = 0; place < 10; ++place) {
      CHECK(shards.indexes_at(epoch, place) == std::vector{place});
      CHECK(shards.place_of(epoch, place) == place);
    }
  }
}

TEST_CASE("a mix takes records of each source by its weight until one source is exhausted",
          "[plan]") {
  struct Case {
    std::vector<uint64_t> bytes, record_bytes;
    std::vector<double> weights;
    size_t first_to_end;
  };
  for (const Case& c : {Case{{100'000, 100'000}, {100, 100}, {0.7, 0.3}, 0},
                        Case{{100'000, 10'000}, {100, 10}, {1, 1}, 0},
                        Case{{100'000, 20'000}, {100, 10}, {0.5, 0.5}, 0},
                        Case{{50'000, 5'000, 90'000}, {100, 50, 300}, {5, 2, 3}, 1},
                        Case{{100'000, 300}, {100, 100}, {0.9, 0.1}, 1}}) {
    std::vector<FileInfo> files;
    ShardRecipe joining;
    for (size_t i = 0; i < c.bytes.size(); ++i) {
      files.push_back({.path = "f", .bytes = c.bytes[i]});
      joining.mix.push_back({1, c.weights[i], c.record_bytes[i]});
    }
    const ShardMap shards(cut_shards(files, 200), 9, joining);
    REQUIRE(shards.count() > 0);
    CHECK_FALSE(shards.source_without_reads());
    std::set<uint32_t> unread_before;
    for (uint32_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> met(shards.ranges().size());
      std::vector<double> records(c.bytes.size());
      for (uint32_t place = 0; place < shards.count(); ++place) {
        for (const uint32_t i : shards.indexes_at(epoch, place)) {
          const ShardRange& range = shards.ranges()[i];
          ++met[i];
          records[range.file] +=
              double(range.end - range.begin) / double(c.record_bytes[range.file]);
          CHECK(shards.place_of(epoch, i) == place);
        }
      }
      const std::vector<uint32_t> unread = shards.unread(epoch);
      for (const uint32_t i : unread) {
        ++met[i];
        CHECK(shards.ranges()[i].file != c.first_to_end);
        CHECK(shards.place_of(epoch, i) == shards.count());
      }
      CHECK(met == std::vector<int>(met.size(), 1));  // in one shard, or unread
      double all = 0, wanted = 0;
      for (size_t i = 0; i < records.size(); ++i) all += records[i], wanted += c.weights[i];
      for (size_t i = 0; i < records.size(); ++i)
        CHECK(records[i] / all == Approx(c.weights[i] / wanted).margin(0.01));
      const std::set<uint32_t> now(unread.begin(), unread.end());
      if (unread.size() > 20) CHECK(now != unread_before);  // different ones in each epoch
      unread_before = now;
    }
  }
}

TEST_CASE("every shard of a mix has a range, and every range is in at most one shard", "[plan]") {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    const uint64_t parts = 1 + rng.below(round % 2 == 0 ? 4 : 40);
    const bool even = rng.below(3) == 0;
    std::vector<FileInfo> files;
    ShardRecipe joining;
    for (uint64_t i = 0; i < parts; ++i) {
      files.push_back({.path = "f", .bytes = 1 + rng.below(5000), .splittable = rng.below(4) > 0});
      joining.mix.push_back({1, even ? 1.0 : std::exp(8 * rng.uniform64()), 1 + rng.below(50)});
    }
    const ShardMap shards(cut_shards(files, 1 + rng.below(300)), 5, joining);
    REQUIRE(shards.count() > 0);
    std::vector<int> met(shards.ranges().size());
    std::set<uint32_t> read;
    for (uint32_t place = 0; place < shards.count(); ++place) {
      const std::vector<uint32_t> indexes = shards.indexes_at(1, place);
      CHECK_FALSE(indexes.empty());
      for (const uint32_t i : indexes) {
        ++met[i];
        read.insert(shards.ranges()[i].file);
        CHECK(shards.place_of(1, i) == place);
      }
    }
    for (const uint32_t i : shards.unread(1)) ++met[i];
    CHECK(met == std::vector<int>(met.size(), 1));
    CHECK(shards.source_without_reads().has_value() == (read.size() < parts));
  }
}

TEST_CASE("a source is reported if its smallest piece is more than its share of an epoch",
          "[plan]") {
  const std::vector<FileInfo> files = {{.path = "a", .bytes = 100'000},
                                       {.path = "b", .bytes = 100'000'000, .splittable = false},
                                       {.path = "b", .bytes = 100'000'000, .splittable = false}};
  const ShardRecipe joining{.mix = {{1, 1, 100}, {2, 1, 100}}};
  CHECK(ShardMap(cut_shards(files, 12'500), 1, joining).source_without_reads() == 1);
}

}  // namespace downpour::plan
