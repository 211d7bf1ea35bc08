#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

TEST_CASE("a batch is pulled, computed, pushed to every owner by handle, and acknowledged",
          "[worker]") {
  BegunHarness h;
  const auto pulls = h.pull(0);
  REQUIRE(pulls.size() == 2);
  h.answer_pulls(pulls);
  const auto pushes = h.push_computed();
  REQUIRE(pushes.size() == 2);
  uint32_t covered = 0;
  for (size_t i = 0; i < 2; ++i) {
    CHECK(push_in(pushes[i]).handle == pulls[i].message.envelope.request);
    CHECK(pushes[i].message.keys.empty());
    covered += push_in(pushes[i]).covered.size();
  }
  CHECK(covered == kPartitions);
  for (const auto& push : pushes) h.applied(push);
  CHECK(h.core.wants_batch());
}

TEST_CASE("a worker reports what its time is spent on: reading, a ps, or computing", "[worker]") {
  Harness h;
  CHECK(h.core.doing() == Activity::kNothing);
  h.begin();
  CHECK(h.core.doing() == Activity::kInput);
  const auto pulls = h.pull(0);
  CHECK(h.core.doing() == Activity::kNetwork);
  h.answer_pulls(pulls);
  REQUIRE(h.fx.computes.size() == 1);
  CHECK(h.core.doing() == Activity::kComputing);
  const auto task = h.fx.computes[0];
  h.compute(task.slot, task.batch->plan);
  CHECK(h.core.doing() == Activity::kInput);  // there is room for another batch during its push
  for (uint32_t n = 1; h.core.wants_batch(); ++n) h.push(n);
  CHECK(h.core.doing() == Activity::kNetwork);  // no room: the pushes must be answered first
}

TEST_CASE("an owner without keys still gets its empty part", "[worker]") {
  BegunHarness h;
  h.fx.clear();
  h.core.on_batch(0, h.batch(0, {}), h.fx);
  CHECK(h.sends_of<wire::Pull>().empty());
  const auto pushes = h.push_computed();
  REQUIRE(pushes.size() == 2);
  CHECK(push_in(pushes[0]).sections.empty());
  CHECK(push_in(pushes[0]).handle == RequestId{});
}

TEST_CASE(
    "the shard-end marker follows when every batch is acknowledged, and then the shard is reported "
    "as ended",
    "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  h.fx.clear();
  h.core.on_shard_end(0,
                      {.shard_read = h.shard_read,
                       .counts = {.batches = 1, .read = 10, .applied = 10},
                       .records_hash = 4},
                      h.fx);
  CHECK(h.sends_of<wire::Push>().empty());  // batch 0 is not acknowledged yet
  h.applied(pushes[0]);
  CHECK(h.sends_of<wire::Push>().empty());
  h.applied(pushes[1]);
  const auto ends = h.sends_of<wire::Push>();
  REQUIRE(ends.size() == 2);
  CHECK(push_in(ends[0]).end);
  CHECK(push_in(ends[0]).batch.batch == 1);
  CHECK(push_in(ends[0]).records_hash == 4);
  h.applied(ends[0]);
  CHECK(h.sends_of<wire::ShardProgress>().empty());
  h.applied(ends[1]);
  const auto progress = h.sends_of<wire::ShardProgress>();
  REQUIRE(progress.size() == 1);
  CHECK(std::get<wire::ShardProgress>(progress[0].message.body).ended);
}

TEST_CASE("a shard without a batch sends only its shard-end marker", "[worker]") {
  BegunHarness h;
  h.fx.clear();
  h.core.on_shard_end(0, {.shard_read = h.shard_read, .counts = {.read = 3, .filtered = 3}}, h.fx);
  REQUIRE(h.sends_of<wire::Push>().size() == 2);
  CHECK(push_in(h.sends_of<wire::Push>()[0]).batch.batch == 0);
}

TEST_CASE("an unknown pull is answered with the keys and gradients of those partitions",
          "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  h.applied(pushes[0]);
  h.answer_all(pushes[1], wire::PartStatus::kUnknownPull, 0);
  const auto again = h.sends_of<wire::Push>();
  REQUIRE(again.size() == 1);
  CHECK(push_in(again[0]).handle == RequestId{});
  CHECK(push_in(again[0]).covered == push_in(pushes[1]).covered);
  CHECK(again[0].message.keys.size() == 2 * again[0].message.values.size());
  CHECK(again[0].message.keys.size() > 0);
  h.applied(again[0]);
  CHECK(h.fx.sends.empty());
}

TEST_CASE(
    "a push without a reply is repeated under a new request, and already applied counts as applied",
    "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  h.applied(pushes[0]);
  h.tick(4 * kSecond);
  const auto again = h.sends_of<wire::Push>();
  REQUIRE(again.size() == 1);
  CHECK(push_in(again[0]).batch == push_in(pushes[1]).batch);
  CHECK(again[0].message.envelope.request != pushes[1].message.envelope.request);
  h.answer_all(again[0], wire::PartStatus::kAlreadyApplied, 1);
  h.fx.clear();
  h.core.on_shard_end(h.now_ns, {.shard_read = h.shard_read, .counts = {.batches = 1}}, h.fx);
  CHECK(h.sends_of<wire::Push>().size() == 2);  // the shard-end marker: batch 0 is done
}

TEST_CASE("a gap sends the worker back to the batch that the partition expects", "[worker]") {
  Harness h;
  h.lease.first_batch = 5;
  h.begin();
  const auto pushes = h.push(5);
  h.answer_all(pushes[0], wire::PartStatus::kGap, 2);
  REQUIRE(h.fx.reads.size() == 1);
  CHECK(h.fx.reads[0].first_batch == 2);
  CHECK(h.fx.stops.at(0).shard_read == h.shard_read);
  const uint64_t old_shard_read = h.shard_read;
  h.shard_read = h.fx.reads[0].shard_read;
  // A batch that the old shard read had in flight is ignored.
  auto stale = h.batch(6);
  stale->shard_read = old_shard_read;
  h.fx.clear();
  h.core.on_batch(h.now_ns, stale, h.fx);
  CHECK(h.fx.sends.empty());
}

TEST_CASE("a worker skips batches that all partitions have applied, without pulling them",
          "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  h.answer_all(pushes[0], wire::PartStatus::kAlreadyApplied, 7);
  h.answer_all(pushes[1], wire::PartStatus::kAlreadyApplied, 4);
  for (uint32_t n = 1; n < 4; ++n) {
    h.fx.clear();
    h.core.on_batch(0, h.batch(n), h.fx);
    CHECK(h.sends_of<wire::Pull>().empty());
  }
  h.fx.clear();
  h.core.on_batch(0, h.batch(4), h.fx);
  CHECK(h.sends_of<wire::Pull>().size() == 2);
}

TEST_CASE("batches of a shard are pushed in order, in whatever order they are computed",
          "[worker]") {
  BegunHarness h;
  auto tasks = h.computing(2);
  h.compute(tasks[1].slot, tasks[1].batch->plan);
  CHECK(h.sends_of<wire::Push>().empty());
  h.compute(tasks[0].slot, tasks[0].batch->plan);
  const auto pushes = h.sends_of<wire::Push>();
  REQUIRE(pushes.size() == 4);
  CHECK(push_in(pushes[0]).batch.batch == 0);
  CHECK(push_in(pushes[3]).batch.batch == 1);
}

TEST_CASE("a new view regroups exactly the parts that are not acknowledged", "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  h.applied(pushes[0]);
  h.from(kChief, h.view(1, 2));
  const auto again = h.sends_of<wire::Push>();
  REQUIRE(again.size() == 1);
  CHECK(again[0].to == Incarnation{20});
  CHECK(push_in(again[0]).covered == push_in(pushes[1]).covered);
}

TEST_CASE(
    "evaluation pulls without a handle, pushes nothing, and reports the metrics of a shard as a "
    "whole",
    "[worker]") {
  Harness h;
  h.lease.purpose = wire::Purpose::kEval;
  h.lease.evaluation = 2;
  h.begin();
  for (uint32_t n = 0; n < 2; ++n) {
    h.fx.clear();
    h.core.on_batch(0, h.batch(n), h.fx);
    const auto pulls = h.sends_of<wire::Pull>();
    CHECK(!std::get<wire::Pull>(pulls.at(0).message.body).keep_handle);
    h.answer_pulls(pulls);
    Computed computed{.slot = h.fx.computes.at(0).slot};
    computed.metrics.resize(1);
    computed.metrics[0].sums.weight = 10;
    computed.slices.resize(2);
    computed.slices[1].sums.weight = 7;
    if (n == 1) computed.predictions = Bytes::of(std::vector<float>(4));  // records with groups
    h.fx.clear();
    h.core.on_computed(0, std::move(computed), h.fx);
    CHECK(h.sends_of<wire::Push>().empty());
    CHECK(h.sends_of<wire::EvalReport>().empty());
    const auto grouped = h.sends_of<wire::PredictReport>();
    REQUIRE(grouped.size() == n);
    if (n == 0) continue;
    CHECK(std::get<wire::PredictReport>(grouped[0].message.body).batch == 1);
    CHECK(std::get<wire::PredictReport>(grouped[0].message.body).lease == h.lease);
    CHECK(grouped[0].message.values.size() == 16);
  }
  h.fx.clear();
  h.core.on_shard_end(
      0, {.shard_read = h.shard_read, .counts = {.batches = 2, .read = 20, .applied = 20}}, h.fx);
  const auto reports = h.sends_of<wire::EvalReport>();
  REQUIRE(reports.size() == 1);
  const auto& report = std::get<wire::EvalReport>(reports[0].message.body);
  CHECK(report.outputs.at(0).sums.weight == 20);
  CHECK(report.slices.at(0).sums.weight == 0);
  CHECK(report.slices.at(1).sums.weight == 14);
}

TEST_CASE("no answer is expected to requests of dropped batches", "[worker]") {
  BegunHarness h;
  SECTION("because the lease was revoked") {
    h.push(0);
    h.fx.clear();
    h.core.on_batch(0, h.batch(1), h.fx);  // pulls
    CHECK(h.core.requests_outstanding() == 4);
    h.from(kChief, wire::LeaseRevoked{h.lease});
  }
  SECTION("because a partition expects an earlier batch") {
    const auto pulls = h.pull(0);
    h.fx.clear();
    h.core.on_batch(0, h.batch(1), h.fx);  // its pulls are not answered
    h.answer_pulls(pulls);
    const auto pushes = h.push_computed();
    REQUIRE(pushes.size() == 2);
    // The partition expects a batch that is not in flight here, so the shard is read again.
    h.answer_all(pushes[0], wire::PartStatus::kGap, 7);
    CHECK(h.fx.reads.size() == 1);
  }
  CHECK(h.core.requests_outstanding() == 0);
}

TEST_CASE("pulls that a new view regroups leave no request open", "[worker]") {
  BegunHarness h;
  h.fx.clear();
  h.core.on_batch(0, h.batch(0), h.fx);
  const size_t before = h.core.requests_outstanding();
  CHECK(before == h.sends_of<wire::Pull>().size());
  h.from(kChief, h.view(2, 2));
  CHECK(h.core.requests_outstanding() == h.sends_of<wire::Pull>().size());
  CHECK(h.core.requests_outstanding() == before);
}

TEST_CASE("a reject from a process that is not a ps of this run does not fail the shard",
          "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  REQUIRE(pushes.size() == 2);
  const auto rejected = [&](uint64_t run, ErrorCode code) {
    h.fx.clear();
    wire::Message message;
    message.envelope = {.run = run, .request = pushes[0].message.envelope.request};
    message.body = wire::Reject{code, "not for me"};
    h.core.on_message(0, pushes[0].to, std::move(message), h.fx);
    return h.sends_of<wire::ShardFailed>().size();
  };
  CHECK(rejected(6, ErrorCode::kUnavailable) == 0);  // a ps of another run
  CHECK(rejected(0, ErrorCode::kUnsupported) == 0);  // a process of another build
  CHECK(h.core.requests_outstanding() == 2);
  CHECK(rejected(5, ErrorCode::kUnavailable) == 1);
}

TEST_CASE("a view of a chief with other data ends the worker", "[worker]") {
  BegunHarness h;
  wire::View same = h.view(2, 2);
  same.plan_hash = 9;
  h.from(kChief, same);
  CHECK(h.fx.exits.empty());
  wire::View other = h.view(2, 3);
  other.plan_hash = 8;
  h.from(kChief, other);
  REQUIRE(h.fx.exits.size() == 1);
  CHECK(h.fx.exits[0].code == 78);
  CHECK(h.core.view() == ViewId{1, 2});
}

TEST_CASE("a view that comes before the Welcome neither ends the worker nor is used", "[worker]") {
  Harness h;
  h.core.start(0, h.fx);
  wire::View early = h.view(2);
  early.plan_hash = 9;
  h.from(kChief, early);  // its Welcome was lost
  CHECK(h.fx.exits.empty());
  CHECK(h.core.view() == ViewId{});
}

TEST_CASE("a read error is reported with its shard, and the shard is dropped", "[worker]") {
  BegunHarness h;
  h.fx.clear();
  h.core.on_read_failed(
      0, {h.shard_read, Error{ErrorCode::kBadData, "no number: `x`", "data.csv:3"}, {}}, h.fx);
  const auto failed = h.sends_of<wire::ShardFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(std::get<wire::ShardFailed>(failed[0].message.body).where == "data.csv:3");
  CHECK(h.sends_of<wire::LeaseRequest>().size() == 1);
}

TEST_CASE("a read error in mid-shard also drops the batches in flight", "[worker]") {
  BegunHarness h;
  h.answer_pulls(h.pull(0));
  const auto task = h.fx.computes.at(0);
  h.fx.clear();
  h.core.on_read_failed(
      0, {h.shard_read, Error{ErrorCode::kBadData, "no number: `x`", "data.csv:3"}, {}}, h.fx);
  CHECK(h.sends_of<wire::ShardFailed>().size() == 1);
  h.compute(task.slot, task.batch->plan);  // the result is ignored
  CHECK(h.fx.sends.empty());
  CHECK(h.core.wants_batch());
}

TEST_CASE("a jump forward drops the batches of the shard that are in flight", "[worker]") {
  Harness h;
  h.begin(2, 3);
  auto tasks = h.computing(3);
  h.compute(tasks[0].slot, tasks[0].batch->plan);
  const auto pushes = h.sends_of<wire::Push>();
  h.answer_all(pushes[0], wire::PartStatus::kAlreadyApplied, 10);
  h.answer_all(pushes[1], wire::PartStatus::kAlreadyApplied, 10);
  h.compute(tasks[1].slot, tasks[1].batch->plan);
  CHECK(h.fx.sends.empty());
  for (uint32_t n = 3; n < 10; ++n) {
    h.fx.clear();
    h.core.on_batch(0, h.batch(n), h.fx);
    CHECK(h.sends_of<wire::Pull>().empty());
  }
  CHECK(h.push(10).size() == 2);
  CHECK(h.core.wants_batch());
}

TEST_CASE("a worker repeats its Hello to a chief that does not know it", "[worker]") {
  BegunHarness h;
  h.now_ns = kSecond;
  h.from(kChief, wire::Reject{ErrorCode::kMalformed, "say Hello first"});
  CHECK(h.sends_of<wire::Hello>().size() == 1);
}

TEST_CASE("a lost grant is requested again under the same request id", "[worker]") {
  Harness h;
  h.core.start(0, h.fx);
  h.from(kChief, wire::Welcome{.job = "job",
                               .plan_hash = 9,
                               .shard_bytes = 1,
                               .heartbeat_ns = kSecond,
                               .lease_ns = 3 * kSecond});
  h.fx.clear();
  h.core.configure(0, {.tables = h.tables, .in_flight = 2, .chief_silence_ns = 60 * kSecond}, h.fx);
  h.from(kChief, h.view(2));
  const RequestId request = h.fx.sends.at(0).message.envelope.request;
  h.tick(4 * kSecond);
  const auto again = h.sends_of<wire::LeaseRequest>();
  REQUIRE(again.size() == 1);
  CHECK(again[0].message.envelope.request == request);
}

TEST_CASE("a silent chief ends the worker with 69 before the Welcome, and with 180 after it",
          "[worker]") {
  Harness never;
  never.core.start(0, never.fx);
  never.tick(11 * kSecond);
  REQUIRE(never.fx.exits.size() == 1);
  CHECK(never.fx.exits[0].code == 69);
  Harness once;
  once.begin();
  once.tick(50 * kSecond);
  CHECK(once.fx.exits.empty());
  once.tick(61 * kSecond);
  REQUIRE(once.fx.exits.size() == 1);
  CHECK(once.fx.exits[0].code == 180);
}

TEST_CASE(
    "a worker introduces itself to a restarted chief, continues its work, and reports its lease",
    "[worker]") {
  BegunHarness h;
  h.tick(kSecond);
  h.from(kChief,
         wire::Reject{ErrorCode::kUnavailable, "the chief does not know this process: send Hello"});
  REQUIRE(h.fx.sends.size() == 1);
  const auto& hello = std::get<wire::Hello>(h.fx.sends[0].message.body);
  CHECK(hello.incarnation == Incarnation{77});
  h.fx.clear();
  const wire::Welcome same{.job = "job",
                           .plan_hash = 9,
                           .shard_bytes = 1,
                           .heartbeat_ns = kSecond,
                           .lease_ns = 3 * kSecond};
  h.from(kChief, same);
  CHECK_FALSE(h.fx.welcomed);
  CHECK(h.fx.exits.empty());
  CHECK(h.fx.stops.empty());
  h.tick(kSecond);  // its lease continues
  bool told = false;
  for (const auto& send : h.fx.sends)
    told |= std::holds_alternative<wire::ShardProgress>(send.message.body);
  CHECK(told);
}

TEST_CASE("a chief of an earlier term cannot stop the worker", "[worker]") {
  BegunHarness h;
  const auto say = [&](uint32_t term, wire::Body body) {
    wire::Message message;
    message.envelope.view = {term, 0};
    message.body = std::move(body);
    h.fx.clear();
    h.core.on_message(h.now_ns, kChief, std::move(message), h.fx);
  };
  say(2, wire::Heartbeat{.incarnation = Incarnation{77}});
  say(1, wire::Stop{180, "superseded"});
  CHECK(h.fx.exits.empty());
  say(2, wire::Stop{0, ""});
  CHECK(h.fx.exits.size() == 1);
}

TEST_CASE("Stop is answered with a Goodbye and the last figures", "[worker]") {
  BegunHarness h;
  h.from(kChief, wire::Stop{0, "done"});
  CHECK(h.sends_of<wire::Goodbye>().size() == 1);
  REQUIRE(h.fx.exits.size() == 1);
  CHECK(h.fx.exits[0].code == 0);
}

}  // namespace
}  // namespace downpour::worker
