// Synchronous steps with backups at the chief: which batches a step has, which replicas move, and
// how shards are dealt to replicas.
#include <catch2/catch.hpp>

#include "chief/core/work/step_commits.h"

namespace downpour::chief {
namespace {

constexpr Incarnation kFirst{1}, kSecondWorker{2}, kThird{3};

wire::StepPart part_of_shard(uint32_t shard, uint32_t batch) { return {shard, {0, shard, batch}}; }

// Three replicas, of which a step may leave out one, and a view of two owners at step 1.
struct BackupsJob {
  explicit BackupsJob(uint32_t backups = 1, uint32_t shards = 6) : table(wire::Lease{}, shards) {
    config.job.train.replicas = 3;
    config.job.train.backups = backups;
    config.lease_stall_ns = 60 * kSecond;
    table.share_among_replicas(3);
    commits.emplace(config);
    view.owners.resize(2);
    view.id = {1, 1};
    commits->on_view(view, true);
    commits->begin_empty();
  }
  uint32_t grant(Incarnation worker, uint32_t replicas_max, int64_t now_ns = 0) {
    const auto lease = table.grant_of_replica(now_ns, worker, replicas_max);
    return lease ? lease->shard.shard : UINT32_MAX;
  }
  void staged(std::vector<wire::StepPart> first, std::vector<wire::StepPart> second) {
    commits->take(0, {1, std::move(first)});
    commits->take(1, {1, std::move(second)});
  }
  std::optional<wire::Commit> due() const { return *commits->due(table); }
  ChiefConfig config;
  wire::View view;
  LeaseTable table;
  std::optional<StepCommits> commits;
};

TEST_CASE("a step has the batches that every owner has staged, and leaves out the others",
          "[chief]") {
  BackupsJob job;
  for (uint32_t shard = 0; shard < 3; ++shard) REQUIRE(job.grant(kFirst, 3) == shard);
  const auto a = part_of_shard(0, 0), b = part_of_shard(1, 0), c = part_of_shard(2, 0);
  job.staged({a, b}, {b, c});  // the owners have different parts
  CHECK_FALSE(job.due());
  job.staged({a, b}, {a, b, c});
  CHECK(job.due() == wire::Commit{1, {a, b}});
  job.staged({a, b, c}, {a, b, c});
  CHECK(job.due() == wire::Commit{1, {a, b, c}});
  const auto other = part_of_shard(5, 0);  // of a lease that has ended
  job.staged({a, other}, {a, other});
  CHECK_FALSE(job.due());
}

TEST_CASE("a step needs one batch at least, and replicas without shards count as done", "[chief]") {
  BackupsJob job(/*backups=*/2, /*shards=*/3);
  for (uint32_t shard = 0; shard < 3; ++shard) REQUIRE(job.grant(kFirst, 3) == shard);
  job.staged({}, {});
  CHECK_FALSE(job.due());
  const auto c = part_of_shard(2, 7);
  job.staged({c}, {c});
  CHECK(job.due() == wire::Commit{1, {c}});
  job.table.end(0);
  job.table.end(1);
  CHECK(job.table.active_replicas() == 1);
  job.staged({}, {});
  CHECK_FALSE(job.due());
  job.staged({c}, {c});
  CHECK(job.due());
  job.table.end(2);
  CHECK(job.table.active_replicas() == 0);
  CHECK_FALSE(job.due());
}

TEST_CASE("a replica gets the lowest shard that no replica has", "[chief]") {
  BackupsJob job(1, 8);
  CHECK(job.table.active_replicas() == 3);
  CHECK(job.grant(kFirst, 2) == 0);
  CHECK(job.grant(kSecondWorker, 1) == 1);
  CHECK(job.grant(kFirst, 2) == 2);
  CHECK(job.grant(kFirst, 2) == 3);  // it reads ahead
  job.table.end(1);
  CHECK(job.table.first_open_of(1) == std::nullopt);
  CHECK(job.table.active_replicas() == 3);
  CHECK(job.grant(kSecondWorker, 1) == 4);
  CHECK(job.table.first_open_of(1) == 4U);
  // The last shards go to the replicas that need them first, and not to those that read ahead.
  CHECK(job.grant(kSecondWorker, 1) == UINT32_MAX);
  for (const uint32_t shard : {4U, 0U}) job.table.end(shard);
  CHECK(job.grant(kSecondWorker, 1) == 5);
  job.table.release(5, kSecondWorker);
  CHECK(job.grant(kSecondWorker, 1) == 5);
  for (const uint32_t shard : {2U, 3U, 5U, 6U, 7U}) job.table.end(shard);
  CHECK(job.table.all_ended());
  // A rollback opens shards again. They stay with their replicas, or go to the one that needs them.
  job.table.reopen(1, 3);
  job.table.reopen(6, 0);
  CHECK(job.table.first_open_of(1) == 1U);
  CHECK(job.table.active_replicas() == 2);
}

/// Three replicas with their first shards, of which `of_second` holds the second one.
struct LeftOutJob : BackupsJob {
  explicit LeftOutJob(Incarnation of_second, uint32_t first_max) {
    REQUIRE(grant(kFirst, first_max) == 0);
    REQUIRE(grant(of_second, first_max) == 1);
    REQUIRE(grant(kThird, 1) == 2);
  }
  LeftOut left_out{3};
  const wire::StepPart a = part_of_shard(0, 0), b = part_of_shard(1, 0), c = part_of_shard(2, 0);
};

TEST_CASE("a replica that two steps in a row leave out moves to another worker", "[chief]") {
  LeftOutJob job(kSecondWorker, 1);
  const auto a = job.a, b = job.b, c = job.c;
  uint64_t step = 0;
  const auto count = [&](int64_t now_ns, std::vector<wire::StepPart> parts) {
    std::vector<uint32_t> replicas;
    for (const LeftOut::Move& move :
         job.left_out.count(now_ns, job.table, {++step, std::move(parts)})) {
      replicas.push_back(move.replica);
      CHECK_FALSE(move.pauses);
    }
    return replicas;
  };
  CHECK(count(0, {a, b, c}).empty());
  CHECK(count(1, {a, b}).empty());
  CHECK(count(2, {a, b, c}).empty());
  CHECK(count(3, {a, b}).empty());
  CHECK(count(4, {a, b}) == std::vector<uint32_t>{2});

  // The replica goes to a worker that holds its share already, but not back to the same one.
  CHECK(job.table.leased_of(2) == std::vector<uint32_t>{2});
  job.table.give_away(4, 2);
  job.table.release(2, kThird);
  CHECK(job.grant(kThird, 1, 4) == UINT32_MAX);
  CHECK(job.grant(kFirst, 1, 5) == 2);

  // Its new worker has a second for its first batch, and the next one two seconds.
  for (int i = 0; i < 10; ++i) CHECK(count(6 + i, {a, b}).empty());
  CHECK(count(kSecond + 5, {a, b}).empty());
  CHECK(count(kSecond + 6, {a, b}) == std::vector<uint32_t>{2});
  job.table.give_away(kSecond + 6, 2);
  job.table.release(2, kFirst);
  CHECK(job.grant(kSecondWorker, 1, 2 * kSecond) == 2);
  for (int i = 0; i < 20; ++i) CHECK(count(2 * kSecond, {a, b}).empty());
  CHECK(count(4 * kSecond - 1, {a, b}).empty());
  CHECK(count(4 * kSecond, {a, c}).empty());
  CHECK(count(4 * kSecond, {a, b}).empty());  // it contributes, so that two steps count again
  CHECK(count(4 * kSecond, {a, b}) == std::vector<uint32_t>{2});
}

TEST_CASE("a worker that loses replicas twice without a batch in between must pause", "[chief]") {
  LeftOutJob job(kFirst, 2);
  const auto a = job.a, b = job.b, c = job.c;
  int64_t now_ns = 0;
  const auto moved = [&] {
    for (int i = 0; i < 9; ++i) {
      const auto moves = job.left_out.count(now_ns += kSecond, job.table, {1, {a, b}});
      if (!moves.empty()) return moves;
    }
    return std::vector<LeftOut::Move>{};
  };
  const auto complete_step = [&] {
    CHECK(job.left_out.count(now_ns, job.table, {1, {a, b, c}}).empty());
  };
  const auto move_there_and_back = [&] {
    job.table.release(2, kThird);
    REQUIRE(job.grant(kSecondWorker, 1) == 2);
    complete_step();
    job.table.release(2, kSecondWorker);
    REQUIRE(job.grant(kThird, 1) == 2);
  };
  CHECK(moved() == std::vector{LeftOut::Move{2, kThird, false}});
  move_there_and_back();
  CHECK(moved() == std::vector{LeftOut::Move{2, kThird, true}});
  complete_step();  // a batch in between
  move_there_and_back();
  CHECK(moved() == std::vector{LeftOut::Move{2, kThird, false}});
}

TEST_CASE("a replica that was given away goes back if no other worker takes it", "[chief]") {
  BackupsJob job;
  REQUIRE(job.grant(kFirst, 3) == 0);
  job.table.give_away(0, 0);
  job.table.release(0, kFirst);
  CHECK(job.grant(kFirst, 1, kReplicaWaitNs - 1) == 1);
  CHECK(job.grant(kFirst, 1, kReplicaWaitNs) == 0);
}

}  // namespace
}  // namespace downpour::chief
