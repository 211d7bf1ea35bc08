// A worker with bounded staleness: when it pulls, what it reports, and what it discards.
#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

// Returns the clock in the newest report among the effects.
wire::Clock reported(const Harness& h) {
  const auto reports = h.sends_of<wire::Clock>();
  REQUIRE_FALSE(reports.empty());
  return std::get<wire::Clock>(reports.back().message.body);
}

void take(Harness& h, uint32_t batch) {
  h.fx.clear();
  h.core.on_batch(h.now_ns, h.batch(batch), h.fx);
}

TEST_CASE("a batch is pulled when the floor is at most the bound behind", "[worker]") {
  Harness h;
  h.begin(2, /*in_flight=*/4, /*staleness=*/1);
  const auto pushes = h.push(0);
  take(h, 1);
  CHECK(h.sends_of<wire::Pull>().size() == 2);
  take(h, 2);
  CHECK(h.sends_of<wire::Pull>().empty());
  CHECK(h.core.batches_pulled() == 2);
  take(h, 3);
  CHECK(h.sends_of<wire::Pull>().empty());
  for (const auto& push : pushes) h.applied(push);
  CHECK(h.sends_of<wire::Pull>().empty());  // other workers may be behind
  h.fx.clear();
  h.from(kChief, wire::Floor{1});
  CHECK(h.sends_of<wire::Pull>().size() == 2);
  CHECK(h.core.batches_pulled() == 2);
  h.fx.clear();
  h.from(kChief, wire::Floor{1});  // a repetition changes nothing
  CHECK(h.sends_of<wire::Pull>().empty());
}

TEST_CASE("without a bound every batch is pulled, and no clock is reported", "[worker]") {
  Harness h;
  h.begin(2, /*in_flight=*/4);
  for (uint32_t n = 0; n < 4; ++n) {
    take(h, n);
    CHECK(h.sends_of<wire::Pull>().size() == 2);
  }
  h.tick(kSecond);
  CHECK(h.sends_of<wire::Heartbeat>().size() == 1);
  CHECK(h.sends_of<wire::Clock>().empty());
}

TEST_CASE("the clock counts acknowledged batches, and is reported with each and each heartbeat",
          "[worker]") {
  Harness h;
  h.begin(2, 2, /*staleness=*/1);
  const auto pushes = h.push(0);
  CHECK(h.sends_of<wire::Clock>().empty());
  h.applied(pushes[0]);
  CHECK(h.sends_of<wire::Clock>().empty());  // one owner has not answered
  h.applied(pushes[1]);
  CHECK(reported(h).batches == 1);
  CHECK(reported(h).floor == 0);
  h.from(kChief, wire::Floor{1});
  h.tick(kSecond);
  CHECK(reported(h) == wire::Clock{.batches = 1, .floor = 1, .sent_ns = h.now_ns});
}

TEST_CASE("a worker that held no lease while the floor rose continues from the floor", "[worker]") {
  Harness h;
  h.begin(2, 2, /*staleness=*/0);
  h.from(kChief, wire::Floor{10});
  CHECK(h.core.pull_policy().clock() == 10);
  take(h, 0);
  CHECK(h.sends_of<wire::Pull>().size() == 2);
  take(h, 1);
  CHECK(h.sends_of<wire::Pull>().empty());
}

TEST_CASE("a worker whose lease may have expired computes what it pulled again", "[worker]") {
  Harness h;
  h.begin(2, 2, /*staleness=*/1);
  take(h, 0);
  h.answer_pulls(h.sends_of<wire::Pull>());
  REQUIRE(h.fx.computes.size() == 1);
  const auto task = h.fx.computes[0];
  h.now_ns += 4 * kSecond;  // the process was stopped for longer than a lease
  h.compute(task.slot, task.batch->plan);
  CHECK(h.sends_of<wire::Push>().empty());
  REQUIRE(h.fx.stops.size() == 1);
  REQUIRE(h.fx.reads.size() == 1);  // from that batch on
  CHECK(h.fx.reads[0].first_batch == 0);
  h.shard_read = h.fx.reads[0].shard_read;
  take(h, 0);
  CHECK(h.sends_of<wire::Pull>().empty());  // not before the chief is heard
  h.fx.clear();
  h.from(kChief, wire::Floor{0});  // it confirms no report since the stop
  CHECK(h.sends_of<wire::Pull>().empty());
  h.tick(0);
  const int64_t sent_ns = reported(h).sent_ns;
  h.fx.clear();
  h.from(kChief, wire::Floor{.batches = 0, .report_ns = sent_ns});
  CHECK(h.sends_of<wire::Pull>().size() == 2);
}

TEST_CASE("a push of an expired lease is not repeated", "[worker]") {
  Harness h;
  h.begin(2, 2, /*staleness=*/1);
  REQUIRE(h.push(0).size() == 2);
  h.tick(4 * kSecond);
  CHECK(h.sends_of<wire::Push>().empty());
  REQUIRE(h.fx.reads.size() == 1);
  CHECK(h.core.batches_pulled() == 0);
}

}  // namespace
}  // namespace downpour::worker
