#include "chief/core/work/step_commits.h"

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

const wire::StepPart kPartA{0, {0, 0, 3}}, kPartB{1, {0, 1, 3}};

// Two replicas with two shards each, and a view of two owners at step 7.
struct Job {
  explicit Job(std::optional<uint64_t> sync_every = {}) {
    config.job.train.replicas = 2;
    config.job.train.sync_every = sync_every;
    config.lease_stall_ns = 60 * kSecond;
    config.share_batches = 70;
    table.split_among_replicas(2);
    commits.emplace(config);
    view.owners.resize(2);
    show_view(1, true);
    RoundOutcome outcome;
    outcome.partitions = {{.partition = PartitionId{0}, .version = 6},
                          {.partition = PartitionId{1}, .version = 6}};
    REQUIRE(commits->take_versions(outcome));
  }
  void show_view(uint32_t n, bool rolled_back) {
    view.id = {1, n};
    commits->on_view(view, rolled_back);
  }
  std::optional<wire::Commit> due() const { return *commits->due(table); }
  ChiefConfig config;
  wire::View view;
  LeaseTable table{wire::Lease{}, 4};
  std::optional<StepCommits> commits;
};

TEST_CASE("a step is due when every owner has staged every replica", "[chief]") {
  Job job;
  CHECK(job.commits->next() == 7);
  job.commits->take(0, {7, {kPartA, kPartB}});
  CHECK_FALSE(job.due());
  job.commits->take(1, {7, {kPartB}});
  CHECK_FALSE(job.due());
  job.commits->take(1, {6, {kPartA, kPartB}});  // a late report
  CHECK_FALSE(job.due());
  job.commits->take(1, {7, {kPartA, kPartB}});
  CHECK(job.due() == wire::Commit{7, {kPartA, kPartB}});
  job.show_view(2, false);  // the reports were made under the view before
  CHECK_FALSE(job.due());
}

TEST_CASE("owners get the current shards of the replicas when these change", "[chief]") {
  Job job;
  const wire::Expect first = *job.commits->expect(job.table);
  CHECK(first.parts == std::vector<wire::StepPart>{{0, {0, 0, 0}}, {1, {0, 1, 0}}});
  CHECK(job.commits->must_send(0));
  CHECK(job.commits->must_send(1));
  CHECK(job.commits->expect(job.table)->version == first.version);
  CHECK_FALSE(job.commits->must_send(0));
  job.table.end(1);
  const wire::Expect second = *job.commits->expect(job.table);
  CHECK(second.version > first.version);
  CHECK(second.parts == std::vector<wire::StepPart>{{0, {0, 0, 0}}, {1, {0, 3, 0}}});
  CHECK(job.commits->must_send(0));
  CHECK(job.commits->must_send(1));
  // The report of an owner shows that the message was lost.
  job.commits->take(0, {.step = 7, .parts = {}, .expects = first.version});
  job.commits->take(1, {.step = 7, .parts = {}, .expects = second.version});
  CHECK(job.commits->must_send(0));
  CHECK_FALSE(job.commits->must_send(1));
  job.show_view(2, false);
  CHECK(job.commits->must_send(1));
  job.table.end(3);
  CHECK(job.commits->expect(job.table)->parts == std::vector<wire::StepPart>{{0, {0, 0, 0}}});
}

TEST_CASE("in mode mixed only owners of partitions that apply steps must stage", "[chief]") {
  Job job;
  job.config.job.train.mode = TrainMode::kMixed;
  job.commits.emplace(job.config);
  job.view.partitions = {{0, {1, 1}}, {0, {1, 1}}, {0, {1, 1}}, {1, {1, 1}}};
  job.show_view(1, true);
  RoundOutcome outcome;
  for (uint32_t p = 0; p < 4; ++p)
    outcome.partitions.push_back({.partition = PartitionId{p}, .version = p < 2 ? 6U : 10U + p});
  REQUIRE(job.commits->take_versions(outcome));
  CHECK(job.commits->next() == 7);
  CHECK_FALSE(job.due());
  job.commits->take(0, {7, {kPartA, kPartB}});
  CHECK(job.due() == wire::Commit{7, {kPartA, kPartB}});
  outcome.partitions[1].version = 7;
  CHECK(job.commits->take_versions(outcome).error().code == ErrorCode::kBug);
}

TEST_CASE("a worker with a view from before a rollback reports what may be lost", "[chief]") {
  Job job;
  job.show_view(2, false);
  CHECK_FALSE(job.commits->precedes_rollback({1, 1}));
  job.show_view(3, true);
  CHECK(job.commits->precedes_rollback({1, 2}));
  CHECK_FALSE(job.commits->precedes_rollback({1, 3}));
}

TEST_CASE("a replica without shards takes no part, and a batch of a later shard waits", "[chief]") {
  Job job;
  const wire::StepPart later{0, {0, 2, 0}};
  for (const uint32_t owner : {0U, 1U}) job.commits->take(owner, {7, {later, kPartB}});
  CHECK_FALSE(job.due());
  job.table.end(0);
  CHECK(job.due() == wire::Commit{7, {later, kPartB}});
  job.table.end(2);
  CHECK(job.due() == wire::Commit{7, {kPartB}});
  job.table.end(1);
  job.table.end(3);
  CHECK_FALSE(job.due());
}

TEST_CASE("partitions at different steps, or different batches of a replica, are a bug",
          "[chief]") {
  Job job;
  job.commits->take(0, {7, {kPartA, kPartB}});
  job.commits->take(1, {7, {{0, {0, 0, 4}}, kPartB}});
  CHECK(job.commits->due(job.table).error().code == ErrorCode::kBug);
  RoundOutcome outcome;
  outcome.partitions = {{.partition = PartitionId{0}, .version = 6},
                        {.partition = PartitionId{1}, .version = 7}};
  CHECK(job.commits->take_versions(outcome).error().code == ErrorCode::kBug);
}

TEST_CASE("a Commit is given up after its time limit, which a checkpoint extends", "[chief]") {
  Job job;
  TurnState state{.config = job.config,
                  .view = job.view,
                  .log_budget = LogBudget({.burst = 1}),
                  .outbox = Outbox(kSecond)};
  Effects effects;
  const auto dropped = [&](int64_t now_ns, bool copying) {
    return job.commits->drop_overdue(Turn(state, now_ns, effects), copying);
  };
  CHECK_FALSE(dropped(100 * kSecond, false));  // no Commit was sent
  job.commits->sent(Turn(state, 100 * kSecond, effects), Member{}, {7, {kPartA, kPartB}});
  CHECK_FALSE(dropped(150 * kSecond, true));
  CHECK_FALSE(dropped(210 * kSecond, false));
  CHECK(dropped(210 * kSecond + 1, false));
  CHECK(job.commits->quiet());
  CHECK_FALSE(dropped(300 * kSecond, false));
}

TEST_CASE(
    "the replicas for which a step waits too long, a second per batch or 60 s, lose their leases",
    "[chief]") {
  constexpr int64_t kUptime = 40'000 * kSecond;
  const auto batches =
      GENERATE(as<std::optional<uint64_t>>(), std::nullopt, 20, 90, kSyncEveryEpoch);
  const int64_t limit = batches == 90U               ? 90 * kSecond
                        : batches == kSyncEveryEpoch ? 70 * kSecond
                                                     : 60 * kSecond;
  Job job(batches);
  TurnState state{.config = job.config,
                  .view = job.view,
                  .log_budget = LogBudget({.burst = 1}),
                  .outbox = Outbox(kSecond)};
  Effects effects;
  for (int i = 0; i < 4; ++i) REQUIRE(job.table.grant_of_replica(kUptime, Incarnation{1}, 2));
  job.commits->begin_pass(kUptime);
  for (const uint32_t owner : {0U, 1U}) job.commits->take(owner, {7, {kPartB}});
  const auto stalled = [&](int64_t after_ns) {
    const Turn turn(state, kUptime + after_ns, effects);
    return job.commits->stalled(turn, job.table);
  };
  CHECK(stalled(limit).empty());
  CHECK(stalled(limit + 1) == std::vector<uint32_t>{0, 2});
  // No replica is staged: the part of the second one may wait for that of the first one.
  for (const uint32_t owner : {0U, 1U}) job.commits->take(owner, {7, {}});
  CHECK(stalled(2 * limit + 2) == std::vector<uint32_t>{0, 2});
}

TEST_CASE("each worker holds a fair share of the replicas, two shards of each at most", "[chief]") {
  constexpr Incarnation kOne{1}, kTwo{2};
  LeaseTable table{wire::Lease{}, 7};
  table.split_among_replicas(3);
  const auto grant = [&](Incarnation worker, uint32_t most) {
    const auto lease = table.grant_of_replica(0, worker, most);
    return lease ? int(lease->shard.shard) : -1;
  };
  CHECK(grant(kOne, 3) == 0);
  CHECK(grant(kOne, 3) == 1);
  CHECK(grant(kOne, 3) == 2);
  CHECK(grant(kTwo, 2) == -1);
  CHECK(grant(kOne, 3) == 3);   // it reads ahead
  CHECK(grant(kOne, 2) == -1);  // but not beyond its share
  CHECK(table.first_open_of(1) == 1U);
  table.end(1);
  CHECK(table.first_open_of(1) == 4U);
  CHECK(grant(kOne, 2) == -1);  // it returns the replica
  const auto lease = table.grant_of_replica(0, kTwo, 2);
  REQUIRE(lease);
  CHECK(lease->shard.shard == 4);
  CHECK(lease->replica == 1);
  table.release(0, kOne);
  CHECK(grant(kTwo, 2) == -1);  // the replica's other shard is leased
  table.release(3, kOne);
  CHECK(grant(kTwo, 2) == 0);  // a released replica belongs to no worker
  CHECK(grant(kTwo, 2) == 3);
  table.end(2);
  table.reopen(2, 5);
  CHECK(table.first_open_of(2) == 2U);
}

TEST_CASE("the table counts the other workers that hold more replicas than an even share",
          "[chief]") {
  constexpr Incarnation kOne{1}, kTwo{2}, kThree{3};
  LeaseTable table{wire::Lease{}, 4};
  table.share_among_replicas(4);
  REQUIRE(table.grant_of_replica(0, kOne, 2));
  REQUIRE(table.grant_of_replica(0, kOne, 2));
  REQUIRE(table.grant_of_replica(0, kTwo, 1));
  CHECK(table.others_above(1, kThree) == 1);
  CHECK(table.others_above(1, kOne) == 0);
  CHECK(table.others_above(0, kThree) == 2);
  REQUIRE(table.grant_of_replica(0, kThree, 1));
  for (const uint32_t shard : {0U, 1U, 2U, 3U}) table.end(shard);
  CHECK(table.others_above(0, kThree) == 0);  // no replica has a shard left
}

TEST_CASE("a closed table leases only shards of which a step has a batch", "[chief]") {
  constexpr Incarnation kOne{1};
  LeaseTable table{wire::Lease{}, 6};
  table.split_among_replicas(2);
  const auto grant = [&] {
    const auto lease = table.grant_of_replica(0, kOne, 2);
    return lease ? int(lease->shard.shard) : -1;
  };
  CHECK(grant() == 0);
  CHECK(grant() == 1);
  CHECK(grant() == 2);  // it reads ahead
  table.mark_begun(0);
  table.close(true);
  CHECK(table.first_open_of(0) == 0U);
  CHECK(table.first_open_of(1) == std::nullopt);
  CHECK(table.active_replicas() == 1);
  for (const uint32_t shard : {0, 1, 2}) table.release(shard, kOne);
  CHECK(table.begun_is_free());
  CHECK(grant() == 0);
  CHECK(grant() == -1);
  table.end(0);
  CHECK_FALSE(table.begun_is_free());
  CHECK(table.active_replicas() == 0);
  // All partitions return to a step before this shard.
  table.reopen(0, 0);
  CHECK(grant() == -1);
  table.close(false);
  CHECK(grant() == 0);
  CHECK(table.active_replicas() == 2);
}

TEST_CASE("a closed table deals only begun shards to replicas with backups", "[chief]") {
  LeaseTable table{wire::Lease{}, 4};
  table.share_among_replicas(2);
  table.mark_begun(2);
  table.close(true);
  CHECK(table.active_replicas() == 1);
  const auto lease = table.grant_of_replica(0, Incarnation{1}, 2);
  REQUIRE(lease);
  CHECK(lease->shard.shard == 2);
  CHECK_FALSE(table.grant_of_replica(0, Incarnation{1}, 2));
  table.close(false);
  CHECK(table.active_replicas() == 2);
}

TEST_CASE("a worker gets back the first shard of its replica, whatever its share", "[chief]") {
  constexpr Incarnation kOne{1};
  LeaseTable table{wire::Lease{}, 4};
  table.split_among_replicas(2);
  for (int i = 0; i < 4; ++i) REQUIRE(table.grant_of_replica(0, kOne, 2));
  table.release(1, kOne);  // it reads shard 3 of this replica ahead
  const auto lease = table.grant_of_replica(0, kOne, 1);
  REQUIRE(lease);
  CHECK(lease->shard.shard == 1);
}

TEST_CASE("a replica that waits long for a worker goes to any worker", "[chief]") {
  constexpr Incarnation kOne{1}, kTwo{2};
  LeaseTable table{wire::Lease{}, 4};
  table.split_among_replicas(2);
  REQUIRE(table.grant_of_replica(0, kOne, 1));
  REQUIRE(table.grant_of_replica(0, kOne, 1));  // shards 0 and 2
  CHECK_FALSE(table.grant_of_replica(0, kOne, 1));
  CHECK_FALSE(table.grant_of_replica(kReplicaWaitNs - 1, kOne, 1));
  const auto above_share = table.grant_of_replica(kReplicaWaitNs, kOne, 1);
  REQUIRE(above_share);
  CHECK(above_share->shard.shard == 1);

  // The worker has lost the first shard of a replica and does not request it.
  table.release(0, kOne);
  CHECK(table.neglected(0).empty());
  CHECK(table.neglected(kReplicaWaitNs) == std::vector<uint32_t>{2});
  CHECK_FALSE(table.grant_of_replica(kReplicaWaitNs, kTwo, 1));
  table.release(2, kOne);
  const auto other = table.grant_of_replica(kReplicaWaitNs, kTwo, 1);
  REQUIRE(other);
  CHECK(other->shard.shard == 0);
  CHECK(table.neglected(3 * kReplicaWaitNs).empty());
}

}  // namespace
}  // namespace downpour::chief
