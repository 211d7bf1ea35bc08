#include "chief/core/work/completion.h"

#include <catch2/catch.hpp>

#include "chief/core/work/account.h"

namespace downpour::chief {
namespace {

using Verdict = CompletionRound::Verdict;

wire::View two_owners() {
  const auto half = [](uint32_t owner) { return wire::Placement{owner, {1, 1}}; };
  return {.id = {1, 1},
          .owners = {{.index = 0, .incarnation = Incarnation{1}},
                     {.index = 1, .incarnation = Incarnation{2}}},
          .partitions = {half(0), half(0), half(1), half(1)}};
}

wire::StatusReply reply_of(uint32_t owner, std::vector<wire::Interval> ended, uint64_t read = 10) {
  wire::StatusReply reply{.round = 4, .epoch = 1, .view = {1, 1}, .ended = std::move(ended)};
  uint32_t count = 0;
  for (const wire::Interval& i : reply.ended) count += i.end - i.begin;
  for (uint32_t p = 2 * owner; p < 2 * owner + 2; ++p) {
    reply.partitions.push_back({.partition = PartitionId(p),
                                .ownership_generation = {1, 1},
                                .shards_ended = count,
                                .counts = {.batches = 1, .read = read, .applied = read}});
  }
  reply.metrics = {{.weight = 5, .loss = double(owner + 1)}};
  return reply;
}

TEST_CASE("a round is complete if every partition reports every shard ended", "[chief][core]") {
  CompletionRound round(4, 1, {.shards = 3}, two_owners());
  std::string why;
  CHECK(round.take(0, reply_of(0, {{0, 3}}), why) == Verdict::kTaken);
  CHECK(round.take(0, reply_of(0, {{0, 3}}), why) == Verdict::kIgnored);
  CHECK_FALSE(round.all_in());
  CHECK(round.take(1, reply_of(1, {{0, 1}, {1, 3}}), why) == Verdict::kTaken);
  REQUIRE(round.all_in());
  const auto outcome = round.judge();
  REQUIRE(outcome);
  CHECK(outcome->lacking.empty());
  CHECK(outcome->partitions.size() == 4);
  CHECK(outcome->metrics[0].loss == 3);
  CHECK(check_account(outcome->partitions));
}

TEST_CASE("a lacking shard starts at the smallest watermark of all partitions", "[chief][core]") {
  CompletionRound round(4, 1, {.shards = 4}, two_owners());
  std::string why;
  wire::StatusReply ahead = reply_of(0, {{0, 1}});
  ahead.open = {
      {.shard = 1, .watermark = 9}, {.shard = 2, .watermark = 5}, {.shard = 99, .watermark = 1}};
  wire::StatusReply behind = reply_of(1, {{0, 2}});
  behind.open = {{.shard = 2, .watermark = 4}};
  ahead.begun = {{0, 3}};
  behind.begun = {{0, 1}, {2, 3}};
  round.take(0, std::move(ahead), why);
  round.take(1, std::move(behind), why);
  CHECK(round.judge()->lacking ==
        std::vector<LackingShard>{{1, 9, true}, {2, 4, true}, {3, 0, false}});
}

TEST_CASE("partitions may have begun shards of an open stream that the chief does not know",
          "[chief][core]") {
  const auto judged = [](bool length_unknown) {
    CompletionRound round(4, 1, {.shards = 2, .open = true, .length_unknown = length_unknown},
                          two_owners());
    CHECK(round.request({}, true).shards == 2);
    std::string why;
    wire::StatusReply ahead = reply_of(0, {{0, 4}}), behind = reply_of(1, {{0, 3}});
    ahead.begun = {{0, 4}};
    behind.begun = {{0, 3}};
    for (wire::StatusReply* reply : {&ahead, &behind}) {
      for (wire::PartitionStatus& status : reply->partitions) status.shards_ended = 4;
    }
    CHECK(round.take(0, std::move(ahead), why) == Verdict::kTaken);
    CHECK(round.take(1, std::move(behind), why) == Verdict::kTaken);
    return round.judge().value();
  };
  const RoundOutcome known = judged(false);
  CHECK(known.shards == 2);  // later shards have no records
  CHECK(known.lacking.empty());
  // Without a known end, the shards that all partitions have ended are never all shards.
  const RoundOutcome length_unknown = judged(true);
  CHECK(length_unknown.shards == 5);
  CHECK(length_unknown.lacking == std::vector<LackingShard>{{3, 0, true}, {4, 0, false}});
}

TEST_CASE("the shards that a ps reports of an open stream are bounded", "[chief][core]") {
  CompletionRound round(4, 1, {.shards = 2, .open = true, .length_unknown = true}, two_owners());
  std::string why;
  CHECK(round.take(0, reply_of(0, {{0, plan::kOpenShardsMax + 1}}), why) == Verdict::kVoid);
  CHECK(round.take(0, reply_of(0, {{0, plan::kOpenShardsMax}}), why) == Verdict::kTaken);
  CHECK(round.take(1, reply_of(1, {}), why) == Verdict::kTaken);
  CHECK(round.judge()->shards == plan::kOpenShardsMax);
}

TEST_CASE("a reply that does not match the view voids the round", "[chief][core]") {
  const auto verdict = [](auto&& spoil) {
    CompletionRound round(4, 1, {.shards = 3}, two_owners());
    wire::StatusReply reply = reply_of(0, {{0, 3}});
    spoil(reply);
    std::string why;
    return round.take(0, std::move(reply), why);
  };
  CHECK(verdict([](auto&) {}) == Verdict::kTaken);
  CHECK(verdict([](auto& r) { r.round = 3; }) == Verdict::kIgnored);
  CHECK(verdict([](auto& r) { r.epoch = 0; }) == Verdict::kIgnored);
  CHECK(verdict([](auto& r) { r.view = {1, 2}; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.partitions[1].ownership_generation = {1, 0}; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.partitions.pop_back(); }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.partitions[1] = r.partitions[0]; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.partitions[1].partition = PartitionId(3); }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.partitions[1].partition = PartitionId(400); }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.ended = {{0, 4}}; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.ended = {{1, 0}}; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.ended = {{2, 3}, {0, 1}}; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.begun = {{0, 4}}; }) == Verdict::kVoid);
  CHECK(verdict([](auto& r) { r.failure = "the input is not replayable"; }) == Verdict::kFailed);
}

TEST_CASE("an account that differs between partitions names two of them", "[chief][core]") {
  std::vector<wire::PartitionStatus> partitions(2);
  partitions[1].partition = PartitionId(1);
  partitions[0].counts = {.batches = 1, .read = 3, .applied = 3};
  partitions[1].counts = {.batches = 1, .read = 2, .applied = 2};
  const auto account = check_account(partitions);
  REQUIRE_FALSE(account);
  CHECK(account.error().what.find("0 has read 3") != std::string::npos);
  CHECK(account.error().what.find("1 has read 2") != std::string::npos);
  partitions[1].counts = partitions[0].counts;
  CHECK(check_account(partitions)->read == 3);
  partitions[0].counts.filtered = partitions[1].counts.filtered = 1;
  CHECK_FALSE(check_account(partitions));
}

TEST_CASE("partitions that applied different records of the same shards have no account",
          "[chief][core]") {
  std::vector<wire::PartitionStatus> partitions(3);
  for (uint32_t p = 0; p < 3; ++p) {
    partitions[p].partition = PartitionId(p);
    partitions[p].counts = {.batches = 1, .read = 3, .applied = 3};
    partitions[p].records_hash = 17;
  }
  CHECK(check_account(partitions));
  partitions[1].records_hash = 0;  // not known: restored from an image of an older build
  CHECK(check_account(partitions));
  partitions[2].records_hash = 18;
  const auto account = check_account(partitions);
  REQUIRE_FALSE(account);
  CHECK(account.error().code == ErrorCode::kBadData);
  CHECK(account.error().what.find("partitions 0 and 2") != std::string::npos);
}

TEST_CASE("the pieces of an open stream tile it up to and after its end", "[chief][core]") {
  const std::vector<plan::FileInfo> files{
      {.path = "exec: x", .bytes = plan::kOpenEnd, .splittable = false, .cuts = {10}}};
  const plan::ShardMap shards(plan::cut_shards(files, 1), 1, {.in_order = true, .open_piece = 10});
  const wire::ShardCounts first{.read = 10, .first_offset = 0, .end_offset = 71};
  const wire::ShardCounts second{.read = 10, .first_offset = 71, .end_offset = 33};
  const wire::ShardCounts last{.read = 4, .first_offset = 33, .end_offset = plan::kOpenEnd};
  const wire::ShardCounts behind{.first_offset = plan::kOpenEnd, .end_offset = plan::kOpenEnd};
  const auto tiles = [&](const std::vector<const wire::ShardCounts*>& counts) {
    return check_tiles(files, shards, 0, counts).has_value();
  };
  CHECK(tiles({&first, &second, &last, &behind, &behind}));
  CHECK(tiles({&first, nullptr, &last}));
  CHECK(tiles({&first, nullptr, &last, nullptr, &behind}));
  CHECK_FALSE(tiles({&first, &last}));                    // one piece is missing
  CHECK_FALSE(tiles({&first, &second, &second}));         // one piece occurs twice
  CHECK_FALSE(tiles({&first, &second, &last, &second}));  // it continues after its end
}

TEST_CASE("byte ranges that do not tile the file fail the job", "[chief][core]") {
  const std::vector<plan::FileInfo> files{{.path = "a", .bytes = 30},
                                          {.path = "b.gz", .bytes = 9, .splittable = false}};
  const std::vector<plan::ShardRange> ranges{{0, 0, 10}, {0, 10, 20}, {0, 20, 30}, {1, 0, 9}};
  wire::ShardCounts a{.read = 1, .first_offset = 0, .end_offset = 12},
      b{.read = 1, .first_offset = 12, .end_offset = 21},
      c{.read = 1, .first_offset = 21, .end_offset = 30},
      gz{.read = 1, .first_offset = 0, .end_offset = 77};
  const plan::ShardMap shards(ranges, 7);
  const auto tiles = [&](const std::vector<const wire::ShardCounts*>& by_range) {
    std::vector<const wire::ShardCounts*> counts(shards.count());
    for (uint32_t i = 0; i < counts.size(); ++i) counts[shards.place_of(3, i)] = by_range[i];
    return check_tiles(files, shards, 3, counts).has_value();
  };
  CHECK(tiles({&a, &b, &c, &gz}));
  CHECK(tiles({&a, nullptr, &c, &gz}));  // not reported to this chief
  wire::ShardCounts overlap = b;
  overlap.first_offset = 11;
  CHECK_FALSE(tiles({&a, &overlap, &c, &gz}));
  wire::ShardCounts short_end = c;
  short_end.end_offset = 29;
  CHECK_FALSE(tiles({&a, &b, &short_end, &gz}));
  a.end_offset = 21;  // a record of the first range ends in the third one
  const wire::ShardCounts none{.read = 0, .first_offset = 20, .end_offset = 20};
  CHECK(tiles({&a, &none, &c, &gz}));
}

TEST_CASE("chosen pieces of a file tile it up to the end of the last one", "[chief][core]") {
  const std::vector<plan::FileInfo> files{
      {.path = "a",
       .bytes = 50,
       .records_before = {plan::kNotChosen, 3, 6, plan::kNotChosen, plan::kNotChosen}}};
  const plan::ShardMap shards(plan::cut_shards(files, 10), 7);
  REQUIRE(shards.count() == 2);
  const auto tiles = [&](const wire::ShardCounts& first, const wire::ShardCounts& second) {
    std::vector<const wire::ShardCounts*> counts(2);
    counts[shards.place_of(3, 0)] = &first;
    counts[shards.place_of(3, 1)] = &second;
    return check_tiles(files, shards, 3, counts).has_value();
  };
  const wire::ShardCounts a{.read = 3, .first_offset = 12, .end_offset = 22},
      b{.read = 1, .first_offset = 22, .end_offset = 31};
  CHECK(tiles(a, b));
  wire::ShardCounts other = b;
  other.first_offset = 23;
  CHECK_FALSE(tiles(a, other));
  other = b;
  other.end_offset = 29;  // a record that begins in the range is missing
  CHECK_FALSE(tiles(a, other));
}

TEST_CASE("the offsets of a compressed stream's pieces must match, or the job fails",
          "[chief][core]") {
  const std::vector<plan::FileInfo> files{
      {.path = "a.gz", .bytes = 30, .splittable = false, .cuts = {10, 20}}};
  const plan::ShardMap shards(plan::cut_shards(files, 1), 7, plan::ShardRecipe{.in_order = true});
  REQUIRE(shards.count() == 3);
  const wire::ShardCounts a{.read = 4, .first_offset = 0, .end_offset = 0x1234567890},
      none{.read = 0, .first_offset = 0x1234567890, .end_offset = 0x1234567890},
      c{.read = 5, .first_offset = 0x1234567890, .end_offset = 30};
  CHECK(check_tiles(files, shards, 0, {&a, &none, &c}));
  wire::ShardCounts other = c;
  other.first_offset = 0x1234567891;
  CHECK_FALSE(check_tiles(files, shards, 0, {&a, &none, &other}));
  wire::ShardCounts ends_early = c;
  ends_early.end_offset = 29;
  CHECK_FALSE(check_tiles(files, shards, 0, {&a, &none, &ends_early}));
}

TEST_CASE("the ranges of joined shards must tile the files, or the job fails", "[chief][core]") {
  const std::vector<plan::FileInfo> files{{.path = "a", .bytes = 30}, {.path = "b", .bytes = 9}};
  const std::vector<plan::ShardRange> ranges{{0, 0, 10}, {0, 10, 20}, {0, 20, 30}, {1, 0, 9}};
  const uint64_t places[][2] = {{0, 12}, {12, 21}, {21, 30}, {0, 9}};
  const plan::ShardMap shards(ranges, 7, /*cycle=*/3);
  REQUIRE(shards.count() == 2);
  std::vector<wire::ShardCounts> told(2);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    for (const uint32_t i : shards.indexes_at(5, shard)) {
      told[shard].first_offset += plan::offset_hash(ranges[i].file, 0, places[i][0]);
      told[shard].end_offset += plan::offset_hash(ranges[i].file, 0, places[i][1]);
    }
  }
  CHECK(check_tiles(files, shards, 5, {&told[0], &told[1]}));
  CHECK(check_tiles(files, shards, 5, {&told[0], nullptr}));  // not reported to this chief
  CHECK_FALSE(check_tiles(files, shards, 5, {&told[0], &told[0]}));
  ++told[1].end_offset;
  CHECK_FALSE(check_tiles(files, shards, 5, {&told[0], &told[1]}));
}

}  // namespace
}  // namespace downpour::chief
