// A worker leaves, returns to a restarted chief, or shares a shard with another worker.
#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

TEST_CASE("only other data in the Welcome of a restarted chief ends the worker", "[worker]") {
  const wire::Welcome same{.job = "job",
                           .plan_hash = 9,
                           .shard_bytes = 1,
                           .heartbeat_ns = kSecond,
                           .lease_ns = 3 * kSecond};
  BegunHarness h;
  wire::Welcome other = same;
  other.index = 7;
  other.run_dir = "/elsewhere";
  other.heartbeat_ns = 2 * kSecond;
  other.lease_ns = 9 * kSecond;
  h.from(kChief, other);
  CHECK(h.fx.exits.empty());
  CHECK_FALSE(h.fx.other_job);
  CHECK(h.core.welcome() == other);

  // The shell decides about another job text, because it can parse it. The lease continues
  // meanwhile.
  other.job = "job with more epochs";
  h.from(kChief, other);
  REQUIRE(h.fx.other_job);
  CHECK(h.fx.other_job->text == other.job);
  CHECK(h.fx.exits.empty());
  CHECK(h.fx.stops.empty());
  h.fx.clear();
  h.core.on_other_job("another model", h.fx);
  REQUIRE(h.fx.exits.size() == 1);
  CHECK(h.fx.exits[0].code == 78);
  CHECK(h.fx.exits[0].reason.find("another model") != std::string::npos);

  const auto ends_by = [&](auto&& change) {
    Harness fresh;
    fresh.begin();
    wire::Welcome changed = same;
    change(changed);
    fresh.from(kChief, changed);
    REQUIRE(fresh.fx.exits.size() == 1);
    CHECK(fresh.fx.exits[0].code == 78);
  };
  ends_by([](wire::Welcome& w) { w.plan_hash = 10; });
  ends_by([](wire::Welcome& w) { w.shard_bytes = 2; });
  ends_by([](wire::Welcome& w) { w.train_files = {{.path = "b.csv", .bytes = 1}}; });
  ends_by([](wire::Welcome& w) { w.eval_files = {{.path = "b.csv", .bytes = 1}}; });
}

TEST_CASE(
    "a worker that leaves returns every lease with its progress, says Goodbye and ends with 0",
    "[worker]") {
  BegunHarness h;
  for (const auto& push : h.push(0)) h.applied(push);
  h.push(1);  // still in flight
  h.fx.clear();
  h.core.leave(h.now_ns, 15, h.fx);
  const auto reported = h.sends_of<wire::Leave>();
  REQUIRE(reported.size() == 1);
  CHECK(std::get<wire::Leave>(reported[0].message.body).signal == 15);
  const auto failed = h.sends_of<wire::ShardFailed>();
  REQUIRE(failed.size() == 1);
  const auto& back = std::get<wire::ShardFailed>(failed[0].message.body);
  CHECK(back.lease.shard == h.lease.shard);
  CHECK(back.code == ErrorCode::kInterrupted);  // counts as no failed attempt
  CHECK(back.batch == 1);
  CHECK(h.fx.stops.size() == 1);
  const auto goodbye = h.sends_of<wire::Goodbye>();
  REQUIRE(goodbye.size() == 1);
  CHECK(std::get<wire::Goodbye>(goodbye[0].message.body).last.records == 10);
  CHECK(h.sends().back().message.body.index() == goodbye[0].message.body.index());  // comes last
  REQUIRE(h.fx.exits.size() == 1);
  CHECK(h.fx.exits[0].code == 0);
  CHECK(h.core.next_deadline_ns() == INT64_MAX);
  h.fx.clear();
  h.core.leave(h.now_ns, 15, h.fx);  // a second signal has no effect
  h.tick(10 * kSecond);
  CHECK(h.fx.sends.empty());
  // A worker that was never welcomed has no chief to report to.
  Harness alone;
  alone.core.start(0, alone.fx);
  alone.fx.clear();
  alone.core.leave(0, 15, alone.fx);
  CHECK(alone.fx.sends.empty());
  CHECK(alone.fx.exits.size() == 1);
}

TEST_CASE("a local worker reports a stop signal and continues until the chief ends it",
          "[worker]") {
  Harness h(WorkerConfig{.incarnation = Incarnation{77}, .leases_wanted = 1, .local = true});
  h.begin();
  h.fx.clear();
  h.core.leave(h.now_ns, 2, h.fx);
  const auto reported = h.sends_of<wire::Leave>();
  REQUIRE(reported.size() == 1);
  CHECK(std::get<wire::Leave>(reported[0].message.body) == wire::Leave{Incarnation{77}, 2});
  CHECK(h.fx.exits.empty());
  CHECK(h.fx.stops.empty());
  CHECK(h.sends_of<wire::Goodbye>().empty());
  h.fx.clear();
  h.tick(2 * kSecond);
  CHECK(h.sends_of<wire::Heartbeat>().size() == 1);
  CHECK(h.sends_of<wire::Leave>().size() == 1);  // the first one may be lost
  h.from(kChief, wire::Stop{130, "stopped by SIGINT"});
  REQUIRE(h.fx.exits.size() == 1);
  CHECK(h.fx.exits[0].code == 130);
}

TEST_CASE("a local worker that no chief has welcomed reports a stop signal in its exit status",
          "[worker]") {
  Harness h(WorkerConfig{.incarnation = Incarnation{77}, .local = true});
  h.core.start(0, h.fx);
  h.fx.clear();
  h.core.leave(0, 15, h.fx);
  CHECK(h.fx.sends.empty());
  REQUIRE(h.fx.exits.size() == 1);
  CHECK(h.fx.exits[0].code == 143);
}

TEST_CASE(
    "a backup lease begins at the batch that all partitions have reached, and overtakes the "
    "straggler",
    "[worker]") {
  Harness h;
  h.lease.attempt = 2;
  h.lease.first_batch = 3;  // acknowledged by all, as the chief knows
  h.begin();
  CHECK(h.shard_read > 0);
  // At one ps the straggler was one batch ahead, at the other it was not.
  auto pushes = h.push(3);
  h.answer_all(pushes[0], wire::PartStatus::kAlreadyApplied, 4);
  h.applied(pushes[1]);
  // From now on the backup is ahead.
  for (uint32_t n = 4; n < 6; ++n) {
    pushes = h.push(n);
    REQUIRE(pushes.size() == 2);
    for (const auto& push : pushes) h.applied(push);
  }
  h.fx.clear();
  h.core.on_shard_end(h.now_ns, {.shard_read = h.shard_read, .counts = {.batches = 6}}, h.fx);
  const auto ends = h.sends_of<wire::Push>();
  REQUIRE(ends.size() == 2);
  for (const auto& end : ends) h.applied(end);
  const auto told = h.sends_of<wire::ShardProgress>();
  REQUIRE(told.size() == 1);
  CHECK(std::get<wire::ShardProgress>(told[0].message.body).ended);
  CHECK(std::get<wire::ShardProgress>(told[0].message.body).lease.attempt == 2);
}

TEST_CASE("a straggler that catches up neither pulls nor pushes what all partitions have applied",
          "[worker]") {
  Harness h;
  h.begin(2, 3);
  // Three batches are in flight when the backup has brought every partition to the end of the
  // shard.
  auto tasks = h.computing(3);
  h.compute(tasks[0].slot, tasks[0].batch->plan);
  const auto pushes = h.sends_of<wire::Push>();
  for (const auto& push : pushes)
    h.answer_all(push, wire::PartStatus::kAlreadyApplied, wire::kShardEnded);
  for (uint32_t n = 1; n < 3; ++n) {
    h.compute(tasks[n].slot, tasks[n].batch->plan);
    CHECK(h.fx.sends.empty());
  }
  for (uint32_t n = 3; n < 50; ++n) {
    h.fx.clear();
    h.core.on_batch(0, h.batch(n), h.fx);
    CHECK(h.fx.sends.empty());
  }
  h.fx.clear();
  h.core.on_shard_end(h.now_ns, {.shard_read = h.shard_read, .counts = {.batches = 50}}, h.fx);
  const auto ends = h.sends_of<wire::Push>();
  REQUIRE(ends.size() == 2);
  for (const auto& end : ends) {
    CHECK(push_in(end).end);
    h.answer_all(end, wire::PartStatus::kAlreadyApplied, wire::kShardEnded);
  }
  CHECK(h.sends_of<wire::ShardProgress>().size() == 1);
}

}  // namespace
}  // namespace downpour::worker
