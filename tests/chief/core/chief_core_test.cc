#include "chief/core/run/chief_core.h"

#include <algorithm>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/chief/core/chief_harness.h"

namespace downpour::chief {
namespace {

/// A core in training, with one ps and one worker.
struct Training {
  ChiefCore core;
  Effects effects;
  int64_t now = 0;

  explicit Training(ChiefConfig config) : core(std::move(config)) { begin_training(*this); }
  Effects& say(PeerKey peer, wire::Body body, uint64_t request = 0) {
    effects.clear();
    now += kMillisecond;
    core.on_message(now, peer, message_of(std::move(body), request), effects);
    return effects;
  }
  Effects& tick(int64_t passed) {
    effects.clear();
    now += passed;
    core.on_tick(now, effects);
    return effects;
  }
};

TEST_CASE("a job that stops while a ps is lost ends without a checkpoint, and says why",
          "[chief][core]") {
  Training t(small_config(2));
  t.core.on_process_ended(t.now, {.role = wire::Role::kPs, .index = 0, .pid = ps_hello(0).pid},
                          t.effects);
  t.core.request_stop(t.now, 15, t.effects);
  CHECK(all_of<Finish>(t.tick(kSecond)).empty());
  const auto notices = all_of<Notice>(t.tick(15 * kSecond));
  CHECK(std::ranges::any_of(notices, [](const Notice& notice) {
    return notice.text.find("because a ps is lost") != std::string::npos;
  }));
  const auto stops = sent<wire::Stop>(t.effects);
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].second.code == 128 + 15);
}

TEST_CASE("near the end of an epoch each worker gets only its fair share of the free shards",
          "[chief][core]") {
  Training t(small_config(6));
  t.say(worker_peer(1), worker_hello(1));
  CHECK(sent<wire::LeaseGrant>(t.say(worker_peer(0), wire::LeaseRequest{100}, 1))[0]
            .second.leases.size() == 3);
  CHECK(sent<wire::LeaseGrant>(t.say(worker_peer(1), wire::LeaseRequest{100}, 1))[0]
            .second.leases.size() == 2);
}

TEST_CASE("the number of replicas differs by at most one between workers", "[chief][core]") {
  ChiefConfig config = small_config(12);
  config.job.train.mode = TrainMode::kSync;
  config.job.train.replicas = 4;
  Training t(config);
  for (const uint32_t w : {1U, 2U}) t.say(worker_peer(w), worker_hello(w));
  std::vector<size_t> replicas;
  for (const uint32_t w : {0U, 1U, 2U}) {
    std::set<uint32_t> held;
    const auto grants = sent<wire::LeaseGrant>(t.say(worker_peer(w), wire::LeaseRequest{100}, 1));
    for (const wire::Lease& lease : grants[0].second.leases) held.insert(lease.replica);
    replicas.push_back(held.size());
  }
  CHECK(replicas == std::vector<size_t>{2, 1, 1});
}

TEST_CASE("a heartbeat is answered, so that a busy worker knows that its chief is alive",
          "[chief][core]") {
  Training t(small_config(2));
  CHECK(sent<wire::Heartbeat>(
            t.say(worker_peer(0), wire::Heartbeat{.incarnation = worker_incarnation(0)}))
            .size() == 1);
}

TEST_CASE(
    "progress shows bytes of ended and of running shards, and metrics since the last snapshot",
    "[chief][core]") {
  Training t(small_config(4));
  t.say(worker_peer(0), wire::LeaseRequest{2}, 1);
  t.say(worker_peer(0), wire::ShardProgress{.lease = {.attempt = 1}, .ended = true});
  t.say(worker_peer(0),
        wire::ShardProgress{.lease = {.shard = {0, 1}, .attempt = 1}, .bytes_done = 30});
  t.say(worker_peer(0), wire::Heartbeat{.incarnation = worker_incarnation(0),
                                        .pulled_bytes = 8,
                                        .records = 9,
                                        .recent = {{.sums = {.weight = 9, .loss = 3}}}});
  t.say(ps_peer(0),
        wire::Heartbeat{
            .incarnation = ps_incarnation(0), .rows = 5, .pulled_bytes = 8, .staleness = {4, 1}});
  const auto shown = all_of<ProgressSnapshot>(t.tick(kSecond));
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].phase == Phase::kTraining);
  CHECK(shown[0].bytes_done == 130);
  CHECK(shown[0].bytes_total == 400);
  CHECK(shown[0].shards_in_flight == 1);
  CHECK(shown[0].records == 9);
  CHECK(shown[0].pulled_bytes == 8);
  CHECK(shown[0].rows == 5);
  CHECK(shown[0].recent[0].sums.loss == 3);
  CHECK(shown[0].staleness == std::vector<uint64_t>{4, 1});
  CHECK(shown[0].workers_live == 1);
  CHECK(all_of<ProgressSnapshot>(t.tick(kSecond))[0].recent.empty());
}

TEST_CASE("figures of a dead worker stay in the summary", "[chief][core]") {
  Training t(small_config(4));
  t.say(worker_peer(0),
        wire::Heartbeat{.incarnation = worker_incarnation(0), .rss_bytes_max = 7, .records = 9});
  t.tick(4 * kSecond);
  wire::Hello next = worker_hello(0);
  next.incarnation = Incarnation{99};
  t.say(worker_peer(1), next);
  t.say(worker_peer(1),
        wire::Heartbeat{.incarnation = Incarnation{99}, .rss_bytes_max = 5, .records = 1});
  t.effects.clear();
  t.core.on_fatal(t.now, Error{ErrorCode::kInterrupted, "ended"}, t.effects);
  t.tick(10 * kSecond);
  const auto finish = all_of<Finish>(t.effects);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].code == 130);
  CHECK(finish[0].summary.records == 10);
  CHECK(finish[0].summary.workers_lost == 1);
  REQUIRE(finish[0].summary.processes.size() == 2);
  CHECK(finish[0].summary.processes[1].rss_bytes_max == 7);
}

TEST_CASE("the third death of a worker at the same shard fails the job", "[chief][core]") {
  Training t(small_config(2));
  for (uint32_t n = 0; n < 3; ++n) {
    wire::Hello hello = worker_hello(0);
    hello.index = UINT32_MAX;
    hello.incarnation = Incarnation(3000 + n);
    t.say(ps_peer(0), wire::Heartbeat{.incarnation = ps_incarnation(0)});
    t.say(PeerKey(300 + n), hello);
    t.say(PeerKey(300 + n), wire::LeaseRequest{2}, 1);
    t.say(ps_peer(0), wire::Heartbeat{.incarnation = ps_incarnation(0)});
    t.tick(4 * kSecond);
  }
  const auto stops = sent<wire::Stop>(t.effects);
  REQUIRE_FALSE(stops.empty());
  CHECK(stops[0].second.code == exit_code(ErrorCode::kPeersLost));
  CHECK(stops[0].second.reason.find("batch 0/0/0 failed 3 times in a row") == 0);
}

TEST_CASE("the cores of one ps process get the same index", "[chief][core]") {
  ChiefCore core(small_config(2, 2));
  Effects effects;
  core.on_start(0, effects);
  for (uint32_t thread = 0; thread < 2; ++thread) {
    wire::Hello hello = ps_hello(0);
    hello.index = UINT32_MAX;
    hello.thread = thread;
    core.on_message(1, ps_peer(thread), message_of(hello), effects);
  }
  const auto welcomes = sent<wire::Welcome>(effects);
  REQUIRE(welcomes.size() == 2);
  CHECK(welcomes[0].second.index == 0);
  CHECK(welcomes[1].second.index == 0);
  CHECK(sent<wire::Adopt>(effects).size() == 2);
}

TEST_CASE("a heartbeat of a ps core that sent no Hello does not count for another core",
          "[chief][core]") {
  // A restarted chief knows one core of the ps again.
  ChiefCore core(small_config(2, 2));
  Effects effects;
  core.on_start(0, effects);
  core.on_message(1, ps_peer(0), message_of(ps_hello(0)), effects);
  effects.clear();
  core.on_message(2, ps_peer(1), message_of(wire::Heartbeat{.incarnation = ps_incarnation(0)}),
                  effects);
  const auto rejects = sent<wire::Reject>(effects);
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].first == ps_peer(1));
  CHECK(rejects[0].second.code == ErrorCode::kUnavailable);
  // The other core sends Hello, and both get partitions.
  wire::Hello hello = ps_hello(0);
  hello.thread = 1;
  effects.clear();
  core.on_message(3, ps_peer(1), message_of(hello), effects);
  const auto adopts = sent<wire::Adopt>(effects);
  REQUIRE(adopts.size() == 2);
  CHECK(adopts[0].first != adopts[1].first);
}

TEST_CASE("no message crashes the core or acts for another member", "[chief][core]") {
  Training t(small_config(2));
  const uint32_t huge = UINT32_MAX;
  const std::vector<wire::Body> bodies{
      wire::Hello{},
      wire::Hello{.role = wire::Role::kChief, .incarnation = Incarnation{1}, .build = "1.0"},
      wire::Hello{.index = 70'000, .incarnation = Incarnation{9}, .build = "1.0"},
      wire::Hello{
          .role = wire::Role::kPs, .index = 0, .incarnation = Incarnation{9}, .build = "1.0"},
      wire::Welcome{},
      wire::Refused{},
      wire::View{},
      wire::Adopt{},
      wire::Adopted{.ownership_generation = {9, 9}},
      wire::Heartbeat{.recent = std::vector<OutputMetrics>(3),
                      .staleness = std::vector<uint64_t>(100'000, 1)},
      wire::LeaseRequest{huge},
      wire::LeaseGrant{},
      wire::ShardProgress{.lease = {.shard = {huge, huge}, .attempt = huge}, .ended = true},
      wire::ShardFailed{.lease = {.shard = {0, huge}, .attempt = 1}},
      wire::LeaseRevoked{},
      wire::EvalReport{},
      wire::PredictReport{.ended = true},
      wire::StatusRequest{},
      wire::StatusReply{.round = 1, .ended = {{huge, 0}}},
      wire::Save{},
      wire::Saved{},
      wire::Sealed{},
      wire::Pull{},
      wire::PullReply{},
      wire::Push{},
      wire::PushReply{},
      wire::Reject{.what = "\x01\"\\"}};
  for (const wire::Body& body : bodies) {
    for (const PeerKey peer : {ps_peer(0), worker_peer(0), PeerKey(999)}) t.say(peer, body, 1);
    t.tick(kMillisecond);
  }
  CHECK(t.core.phase() == Phase::kTraining);
  CHECK(sent<wire::Reject>(t.say(worker_peer(0), wire::Pull{})).size() == 1);
}

TEST_CASE("a worker that cannot work fails the job with its own error", "[chief][core]") {
  Training t(small_config(2));
  wire::ShardFailed failed;
  failed.code = ErrorCode::kConfig;
  failed.what = "no such layer";
  failed.where = "job.toml:3";
  t.say(worker_peer(0), failed);
  CHECK(t.core.phase() == Phase::kStopping);
  CHECK(sent<wire::Stop>(t.effects)[0].second.code == 78);
  const auto notices = all_of<Notice>(t.effects);
  REQUIRE_FALSE(notices.empty());
  CHECK(notices.back().text ==
        str("the next error, which ends the job, comes from worker 0 (h, pid ", worker_hello(0).pid,
            ")"));
}

TEST_CASE("an event line is valid JSON, whatever name a peer uses", "[chief][core]") {
  CHECK(JsonLine(12 * kMillisecond, "hello")
            .add("host", "a\"b\\c\n\x1b")
            .add("n", 3U)
            .add("ok", true)
            .str() == R"({"ms":12,"event":"hello","host":"a\"b\\c\u000a\u001b","n":3,"ok":true})");
}

TEST_CASE("a ps that cannot continue fails the job with its own error", "[chief][core]") {
  Training t(small_config(2));
  t.say(worker_peer(0), wire::Heartbeat{.incarnation = worker_incarnation(0),
                                        .failure = {ErrorCode::kConfig, "not a ps", "", ""}});
  CHECK(t.core.phase() == Phase::kTraining);
  t.say(ps_peer(0), wire::Heartbeat{.incarnation = ps_incarnation(0),
                                    .failure = {ErrorCode::kConfig, "table clicks is full",
                                                "add ps", "DP-2401"}});
  const auto stops = sent<wire::Stop>(t.effects);
  REQUIRE(stops.size() == 2);
  CHECK(stops[0].second.code == exit_code(ErrorCode::kConfig));
  CHECK(stops[0].second.reason.find("ps 0") == 0);
  CHECK(stops[0].second.reason.find("table clicks is full") != std::string::npos);
  t.say(ps_peer(0), wire::Goodbye{.last = {.incarnation = ps_incarnation(0)}});
  t.say(worker_peer(0), wire::Goodbye{.last = {.incarnation = worker_incarnation(0)}});
  const auto finish = all_of<Finish>(t.effects);
  REQUIRE(finish.size() == 1);
  REQUIRE(finish[0].error);
  CHECK(finish[0].error->id == "DP-2401");
  CHECK(finish[0].error->hint == "add ps");
}

TEST_CASE("the end of a process is noticed before its Goodbye, whose figures still count",
          "[chief][core]") {
  Training t(small_config(1));
  t.say(worker_peer(0), wire::ShardFailed{.code = ErrorCode::kConfig, .what = "no such layer"});
  REQUIRE(t.core.phase() == Phase::kStopping);
  t.say(ps_peer(0), wire::Goodbye{.last = {.incarnation = ps_incarnation(0)}});
  t.effects.clear();
  t.core.on_process_ended(
      t.now, {.role = wire::Role::kWorker, .index = 0, .pid = worker_hello(0).pid, .goodbye = true},
      t.effects);
  CHECK(all_of<Finish>(t.effects).empty());
  t.say(worker_peer(0),
        wire::Goodbye{.last = {.incarnation = worker_incarnation(0), .read_bytes = 4096}});
  const auto finish = all_of<Finish>(t.effects);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].summary.read_bytes == 4096);
}

TEST_CASE("progress counts each batch once, and batches trained again after a loss not at all",
          "[chief][core]") {
  Training t(small_config(2));
  const auto acked = [&](uint32_t batches) {
    t.say(worker_peer(0), wire::ShardProgress{.lease = {.attempt = 1}, .batches_acked = batches});
    t.tick(kMillisecond);
    return t.core.progress();
  };
  t.say(worker_peer(0), wire::LeaseRequest{1}, 1);
  CHECK(acked(0) == 0);
  CHECK(acked(3) == 3);
  // The ps is restarted empty. The reconciliation finds that nothing of the epoch is left.
  wire::Hello again = ps_hello(0);
  again.incarnation = Incarnation(1100);
  t.effects.clear();
  t.core.on_process_ended(t.now, {.role = wire::Role::kPs, .index = 0, .pid = 10}, t.effects);
  t.say(ps_peer(1), again);
  const auto adopts = sent<wire::Adopt>(t.effects);
  REQUIRE(adopts.size() == 1);
  t.say(ps_peer(1), wire::Adopted{.ownership_generation = adopts[0].second.ownership_generation});
  const auto asked = sent<wire::StatusRequest>(t.effects);
  REQUIRE(asked.size() == 1);
  wire::StatusReply reply{.round = asked[0].second.round,
                          .view = adopts[0].second.ownership_generation};
  for (uint32_t p = 0; p < 4; ++p) {
    reply.partitions.push_back({.partition = PartitionId(p),
                                .ownership_generation = adopts[0].second.ownership_generation});
  }
  t.say(ps_peer(1), reply);
  REQUIRE(t.core.phase() == Phase::kTraining);
  CHECK(acked(0) == 3);
  CHECK(acked(3) == 3);
  CHECK(acked(4) == 4);
}

}  // namespace
}  // namespace downpour::chief
