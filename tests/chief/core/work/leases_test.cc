#include "chief/core/work/leases.h"

#include <array>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

constexpr Incarnation kAda{1}, kBen{2}, kCal{3};

TEST_CASE("returned shards are leased before new ones", "[chief][core]") {
  LeaseTable table({.shard = {3, 0}, .plan_hash = 9}, 4);
  const auto first = table.grant(0, kAda);
  table.grant(0, kAda);
  REQUIRE(first);
  CHECK(first->shard == ShardId{3, 0});
  CHECK(first->attempt == 1);
  CHECK(first->plan_hash == 9);
  table.release(0, kAda);
  const auto again = table.grant(0, kBen);
  CHECK(again->shard.shard == 0);
  CHECK(again->attempt == 2);
  CHECK(table.grant(0, kBen)->shard.shard == 2);
  CHECK(table.attempts_repeated() == 1);
  CHECK(table.held_by(kBen) == std::vector<uint32_t>{0, 2});
  CHECK(table.held_count(kAda) == 1);
}

TEST_CASE("a shard ends once, whichever worker ends it", "[chief][core]") {
  LeaseTable table({}, 2);
  const auto lease = table.grant(0, kAda);
  CHECK(table.end(0, {.batches = 3}));
  CHECK_FALSE(table.end(0, {.batches = 4}));
  CHECK(table.entry(0).counts.batches == 3);
  CHECK_FALSE(table.holds(kAda, *lease));
  CHECK(table.leased_count() == 0);
  CHECK(table.first_open() == 1);
  CHECK(table.end(1));
  CHECK(table.all_ended());
  table.reopen(0, 2);
  CHECK(table.first_open() == 0);
  CHECK(table.grant(0, kBen)->first_batch == 2);
  CHECK_FALSE(table.grant(0, kBen));
}

TEST_CASE("a table that grows gives each replica its next shards, in turn or one by one",
          "[chief][core]") {
  for (const bool one_by_one : {false, true}) {
    CAPTURE(one_by_one);
    LeaseTable table({}, 0);
    if (one_by_one) {
      table.share_among_replicas(2);
    } else {
      table.split_among_replicas(2);
    }
    table.share(true);  // the shards of replicas are never shared
    table.grow(3);
    table.share(false);
    CHECK_FALSE(table.shared());
    CHECK(table.fewest_free() == (one_by_one ? UINT32_MAX : 1));
    const auto grant = [&] { return table.grant_of_replica(0, kAda, 2); };
    for (uint32_t shard = 0; shard < 2; ++shard) {
      const auto lease = grant();
      REQUIRE(lease);
      CHECK(lease->shard.shard == shard);
      CHECK(lease->replica == shard);
    }
    table.end(0);
    table.end(1);
    CHECK(table.active_replicas() == 1);
    table.grow(4);
    CHECK(table.active_replicas() == 2);
    CHECK(grant()->shard.shard == 2);
    const auto lease = grant();
    REQUIRE(lease);
    CHECK(lease->shard.shard == 3);
    CHECK(lease->replica == 1);
    CHECK(table.free_count() == 3);
  }
}

TEST_CASE("a table may grow while shards are leased, shared or not", "[chief][core]") {
  LeaseTable table({}, 0);
  CHECK_FALSE(table.grant(0, kAda));
  table.grow(2);
  table.share(false);
  CHECK(table.grant(0, kAda)->shard.shard == 0);
  CHECK_FALSE(table.grant(0, kBen));
  table.grow(2);
  CHECK(table.shard_count() == 4);
  CHECK(table.free_count() == 3);
  CHECK_FALSE(table.grant(0, kBen));
  for (uint32_t shard = 1; shard < 4; ++shard) CHECK(table.grant(0, kAda)->shard.shard == shard);
  table.share(true);
  table.grow(1);
  CHECK(table.grant(0, kBen)->shard.shard == 4);
  for (uint32_t shard = 0; shard < 5; ++shard) table.end(shard);
  CHECK(table.all_ended());
  table.grow(1);
  CHECK_FALSE(table.all_ended());
  CHECK(table.first_open() == 5);
}

TEST_CASE("failed attempts in a row count until another batch is acknowledged", "[chief][core]") {
  LeaseTable table({}, 1);
  table.grant(0, kAda);
  CHECK(table.fail(0, kAda, 5) == 1);
  table.grant(0, kAda);
  table.renew(1, 0, kAda, 5, 0);
  CHECK(table.fail(0, kAda, 5) == 1);
  table.grant(0, kAda);
  table.renew(1, 0, kAda, 5, 0);  // no progress
  CHECK(table.fail(0, kAda, 5) == 2);
}

TEST_CASE("a lease of another pass, or of a shard that does not exist, is not covered",
          "[chief][core]") {
  const LeaseTable table({.purpose = wire::Purpose::kEval, .shard = {1, 0}, .evaluation = 2}, 3);
  wire::Lease lease{.purpose = wire::Purpose::kEval, .shard = {1, 2}, .evaluation = 2};
  CHECK(table.covers(lease));
  lease.shard.shard = 3;
  CHECK_FALSE(table.covers(lease));
  lease = {.purpose = wire::Purpose::kEval, .shard = {1, 2}, .evaluation = 1};
  CHECK_FALSE(table.covers(lease));
  lease = {.purpose = wire::Purpose::kTrain, .shard = {1, 2}, .evaluation = 2};
  CHECK_FALSE(table.covers(lease));
}

TEST_CASE("a limit keeps leases within a window, and an empty pass has no leases",
          "[chief][core]") {
  LeaseTable table({}, 10);
  for (uint32_t n = 0; n < 4; ++n) CHECK(table.grant(0, kAda, table.first_open() + 4));
  CHECK_FALSE(table.grant(0, kAda, table.first_open() + 4));
  table.end(1);
  CHECK_FALSE(table.grant(0, kAda, table.first_open() + 4));
  table.end(0);
  CHECK(table.grant(0, kAda, table.first_open() + 4)->shard.shard == 4);
  LeaseTable empty({}, 0);
  CHECK(empty.all_ended());
  CHECK_FALSE(empty.grant(0, kAda));
}

TEST_CASE("leases without a recent report are idle", "[chief][core]") {
  LeaseTable table({}, 3);
  table.grant(10, kAda);
  table.grant(10, kBen);
  table.renew(20, 1, kBen, 0, 0);
  CHECK(table.idle(10, 0).empty());
  CHECK(table.idle(20, 0) == std::vector<LeaseTable::Held>{{0, kAda}});
  CHECK(table.idle(21, 0) == std::vector<LeaseTable::Held>{{0, kAda}, {1, kBen}});
}

TEST_CASE("a lease with reports but without an acknowledged batch is idle", "[chief][core]") {
  LeaseTable table({}, 2);
  table.grant(10, kAda);
  table.grant(10, kBen);
  table.renew(20, 0, kAda, 3, 0);
  table.renew(20, 1, kBen, 0, 0);
  CHECK(table.idle(20, 10).empty());
  CHECK(table.idle(20, 15) == std::vector<LeaseTable::Held>{{1, kBen}});
}

TEST_CASE(
    "two workers on one shard have their own leases, and the shard is free when both are released",
    "[chief][core]") {
  LeaseTable table({.shard = {3, 0}}, 1);
  const wire::Lease first = *table.grant(0, kAda);
  table.renew(1, 0, kAda, 4, 40);
  const wire::Lease second = table.back_up(2, 0, kBen);
  CHECK(second.attempt == 2);
  CHECK(second.first_batch == 4);
  CHECK(table.holds(kAda, first));
  CHECK(table.holds(kBen, second));
  CHECK(table.leased_count() == 1);
  CHECK(table.leased() == std::vector<uint32_t>{0});
  table.release(0, kAda);
  CHECK_FALSE(table.holds(kAda, first));
  CHECK(table.holds(kBen, second));
  CHECK(table.entry(0).state == ShardState::kLeased);
  CHECK_FALSE(table.grant(3, kAda));
  CHECK(table.fail(0, kBen, 4) == 1);
  CHECK(table.entry(0).state == ShardState::kFree);
  CHECK(table.leased_count() == 0);
  CHECK(table.grant(3, kAda)->attempt == 3);
  CHECK(table.backups() == 1);
}

TEST_CASE("ending a shard ends the leases of both workers", "[chief][core]") {
  LeaseTable table({}, 1);
  table.grant(0, kAda);
  table.back_up(2, 0, kBen);
  CHECK(table.end(0));
  CHECK(table.held_count(kAda) == 0);
  CHECK(table.held_count(kBen) == 0);
  CHECK(table.all_ended());
}

TEST_CASE(
    "a training shard continues at the batches that all partitions have, an evaluation starts over",
    "[chief][core]") {
  LeaseTable train({}, 1);
  train.grant(0, kAda);
  train.renew(1, 0, kAda, 5, 50);
  train.release(0, kAda);
  CHECK(train.grant(2, kBen)->first_batch == 5);
  train.end(0);
  train.reopen(0, 2);  // a ps was restored
  CHECK(train.grant(3, kAda)->first_batch == 2);
  LeaseTable eval({.purpose = wire::Purpose::kEval}, 1);
  eval.grant(0, kAda);
  eval.renew(1, 0, kAda, 5, 50);
  CHECK(eval.back_up(2, 0, kBen).first_batch == 0);
}

TEST_CASE("a stream belongs to one worker until it is released or the worker is gone",
          "[chief][core]") {
  LeaseTable table({}, 6);
  table.split(2, {0, 1, 0, 1, 0, 1});
  CHECK_FALSE(table.shared());
  const auto shard_for = [&](Incarnation worker, uint32_t index) {
    const auto lease = table.grant(0, worker, UINT32_MAX, index);
    return lease ? int(lease->shard.shard) : -1;
  };
  CHECK(shard_for(kBen, 1) == 1);  // the stream with Ben's number
  CHECK(shard_for(kAda, 0) == 0);
  CHECK(shard_for(kCal, 2) == -1);  // both streams have an owner
  CHECK(shard_for(kAda, 0) == 2);
  table.end(0);
  table.end(2);
  CHECK(shard_for(kCal, 2) == -1);  // stream 0 still belongs to Ada, between two leases
  CHECK(shard_for(kAda, 0) == 4);
  table.end(4);
  CHECK(shard_for(kAda, 0) == -1);  // stream 0 has no free shard, and stream 1 belongs to Ben
  CHECK(table.free_count() == 2);
  table.leave(kBen);
  table.release(1, kBen);
  CHECK(shard_for(kCal, 2) == 1);  // the first worker that asks continues the stream
  CHECK(shard_for(kAda, 0) == -1);
  table.end(1);
  table.reopen(0, 3);  // a partition lacked shard 0, so stream 0 continues there for Ada
  CHECK(shard_for(kCal, 2) == 3);
  const auto again = table.grant(0, kAda, UINT32_MAX, 0);
  REQUIRE(again);
  CHECK(again->shard.shard == 0);
  CHECK(again->first_batch == 3);
}

TEST_CASE("a table is for one worker at a time while it is not shared", "[chief][core]") {
  LeaseTable table({}, 6);
  CHECK(table.shared());
  table.share(false);
  CHECK_FALSE(table.shared());
  CHECK(table.grant(0, kAda)->shard.shard == 0);
  CHECK_FALSE(table.grant(0, kBen));
  table.end(0);
  CHECK_FALSE(table.grant(0, kBen));  // the stream belongs to Ada between two leases
  CHECK(table.grant(0, kAda)->shard.shard == 1);
  table.share(true);
  CHECK(table.grant(0, kBen)->shard.shard == 2);
  table.share(false);  // leases stay valid, and the first worker that asks gets the rest
  table.end(2);
  CHECK(table.grant(0, kBen)->shard.shard == 3);
  table.end(1);
  CHECK_FALSE(table.grant(0, kAda));
  table.release(3, kBen);
  table.leave(kBen);
  CHECK(table.grant(0, kAda)->shard.shard == 3);
}

TEST_CASE("shards of a stream are stalled only all together", "[chief][core]") {
  LeaseTable table({}, 3);
  for (const Incarnation worker : {kAda, kBen, kCal}) table.grant(0, worker);
  for (const uint32_t shard : {0U, 1U, 2U})
    table.renew(100, shard, std::array{kAda, kBen, kCal}[shard], shard == 0 ? 1 : 0, 0);
  // All have reported at 100, but only the first one has made progress.
  CHECK(table.idle(50, 50).size() == 2);
  CHECK(table.idle(50, 50, /*in_order=*/true).empty());
  CHECK(table.idle(50, 101, /*in_order=*/true).size() == 3);
  CHECK(table.idle(101, 50, /*in_order=*/true).size() == 3);  // no lease has a newer report
}

TEST_CASE("a worker without leases takes a stream without owner, one with leases waits",
          "[chief][core]") {
  LeaseTable table({}, 4);
  table.split(2, {0, 0, 1, 1});
  CHECK(table.grant(0, kAda, UINT32_MAX, 1)->shard.shard == 2);
  CHECK(table.grant(0, kAda, UINT32_MAX, 1)->shard.shard == 3);
  CHECK_FALSE(table.grant(0, kAda, UINT32_MAX, 1));  // stream 0 is left for other workers
  table.end(2);
  table.end(3);
  CHECK(table.grant(0, kAda, UINT32_MAX, 1)->shard.shard == 0);
}

}  // namespace
TEST_CASE("without fresh shards only begun ones are leased", "[chief][core]") {
  const auto only_begun = [](LeaseTable& table, Incarnation worker) {
    return table.grant(0, worker, UINT32_MAX, 0, true, /*fresh=*/false);
  };
  LeaseTable table(wire::Lease{}, 4);
  CHECK_FALSE(only_begun(table, kAda));
  CHECK_FALSE(table.begun_is_free());
  table.grant(0, kAda);
  table.release(0, kAda);  // a partition may have begun it
  table.mark_begun(2);     // according to a round
  CHECK(table.begun_is_free());
  CHECK(only_begun(table, kBen)->shard.shard == 0);
  CHECK(only_begun(table, kAda)->shard.shard == 2);
  CHECK_FALSE(only_begun(table, kAda));
  CHECK_FALSE(table.begun_is_free());
  CHECK(table.grant(0, kAda)->shard.shard == 1);

  LeaseTable streams(wire::Lease{}, 4);
  streams.split(2, {0, 1, 0, 1});
  streams.mark_begun(3);
  CHECK(only_begun(streams, kAda)->shard.shard == 3);
  CHECK_FALSE(only_begun(streams, kBen));
}

}  // namespace downpour::chief
