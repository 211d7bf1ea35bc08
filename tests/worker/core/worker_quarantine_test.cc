// Quarantined batches, losses that are not finite, and single-step leases at a worker.
#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

TEST_CASE(
    "a quarantined batch is pushed empty, and every part states the number of quarantined batches",
    "[worker]") {
  Harness h;
  h.lease.quarantined_batches = {0};
  h.begin();
  h.fx.clear();
  auto batch = h.batch(0, {});
  batch->batch.quarantined = true;
  batch->batch.records = 0;
  h.core.on_batch(0, batch, h.fx);
  CHECK(h.sends_of<wire::Pull>().empty());
  CHECK(h.fx.computes.empty());
  const auto pushes = h.sends_of<wire::Push>();
  REQUIRE(pushes.size() == 2);
  CHECK(push_in(pushes[0]).quarantined);
  CHECK(push_in(pushes[0]).batches_quarantined == 1);
  CHECK(push_in(pushes[0]).covered.size() + push_in(pushes[1]).covered.size() == kPartitions);
  h.core.on_shard_end(
      0, {.shard_read = h.shard_read, .counts = {.batches = 1, .read = 10, .quarantined = 10}},
      h.fx);
  for (const auto& push : pushes) h.applied(push);
  const auto ends = h.sends_of<wire::Push>();
  REQUIRE(!ends.empty());
  CHECK(push_in(ends.back()).end);
  CHECK(push_in(ends.back()).batches_quarantined == 1);
}

TEST_CASE("a worker returns its lease when a partition answers that the batch is quarantined",
          "[worker]") {
  BegunHarness h;
  const auto pushes = h.push(0);
  h.applied(pushes[0]);
  h.fx.clear();
  h.answer_all(pushes[1], wire::PartStatus::kQuarantined, 0);
  const auto failed = h.sends_of<wire::ShardFailed>();
  REQUIRE(failed.size() == 1);
  CHECK(std::get<wire::ShardFailed>(failed[0].message.body).kind ==
        wire::FailureKind::kMarkersDiffer);
  CHECK(h.fx.stops.size() == 1);
  h.tick(60 * kSecond);
  CHECK(h.sends_of<wire::Push>().empty());
}

TEST_CASE("a loss that is not finite is never pushed; the batch and its place are reported",
          "[worker]") {
  BegunHarness h;
  h.fx.clear();
  auto batch = h.batch(0);
  batch->where = "clicks.tsv";
  h.core.on_batch(0, batch, h.fx);
  h.answer_pulls(h.sends_of<wire::Pull>());
  Computed computed{.slot = h.fx.computes.at(0).slot, .not_finite = "the loss is NaN"};
  for (const PartMessage& message : h.fx.computes[0].batch->plan.messages)
    computed.gradients.push_back(Bytes::of(std::vector<float>(message.value_bytes / 4)));
  computed.metrics.resize(1);
  h.fx.clear();
  h.core.on_computed(0, std::move(computed), h.fx);
  CHECK(h.sends_of<wire::Push>().empty());
  const auto failed = h.sends_of<wire::ShardFailed>();
  REQUIRE(failed.size() == 1);
  const auto& report = std::get<wire::ShardFailed>(failed[0].message.body);
  CHECK(report.kind == wire::FailureKind::kNotFinite);
  CHECK(report.batch == 0);
  CHECK(report.where == "clicks.tsv");
}

TEST_CASE("a single-step lease reports each batch before it reads the next one", "[worker]") {
  Harness h;
  h.lease.single_step = true;
  h.begin();
  const auto pushes = h.push(0);
  h.fx.clear();
  h.applied(pushes[0]);
  CHECK(h.fx.reads.empty());
  h.fx.clear();
  h.applied(pushes[1]);
  const auto progress = h.sends_of<wire::ShardProgress>();
  REQUIRE(progress.size() == 1);
  CHECK(std::get<wire::ShardProgress>(progress[0].message.body).batches_acked == 1);
  REQUIRE(h.fx.reads.size() == 1);
  CHECK(h.fx.reads[0].first_batch == 1);
  CHECK(h.fx.reads[0].batches_max == 1);
  // At the end of the shard nothing more is read, and the shard-end marker follows.
  h.shard_read = h.fx.reads[0].shard_read;
  h.fx.clear();
  h.core.on_shard_end(
      0, {.shard_read = h.shard_read, .counts = {.batches = 1, .read = 10, .applied = 10}}, h.fx);
  CHECK(h.fx.reads.empty());
  CHECK(h.sends_of<wire::Push>().size() == 2);
}

TEST_CASE("a single-step lease jumps to the watermark of all partitions", "[worker]") {
  Harness h;
  h.lease.single_step = true;
  h.begin();
  const auto pushes = h.push(0);
  h.answer_all(pushes[0], wire::PartStatus::kAlreadyApplied, 5);
  h.fx.clear();
  h.answer_all(pushes[1], wire::PartStatus::kAlreadyApplied, 3);
  REQUIRE(h.fx.reads.size() == 1);
  CHECK(h.fx.reads[0].first_batch == 3);
  const auto progress = h.sends_of<wire::ShardProgress>();
  REQUIRE(!progress.empty());
  CHECK(std::get<wire::ShardProgress>(progress.back().message.body).batches_acked == 3);
}

TEST_CASE("a single-step lease of a shard that has ended everywhere counts its real batches",
          "[worker]") {
  Harness h;
  h.lease.single_step = true;
  h.begin();
  const auto pushes = h.push(0);
  h.answer_all(pushes[0], wire::PartStatus::kAlreadyApplied, wire::kShardEnded);
  h.answer_all(pushes[1], wire::PartStatus::kAlreadyApplied, wire::kShardEnded);
  const auto progress = h.sends_of<wire::ShardProgress>();
  REQUIRE(!progress.empty());
  CHECK(std::get<wire::ShardProgress>(progress.back().message.body).batches_acked == 1);
  // Nothing is left to train. The shard is read to its end for the shard-end marker.
  REQUIRE(h.fx.reads.size() == 1);
  CHECK(h.fx.reads[0].first_batch == wire::kShardEnded);
  const uint64_t shard_read = h.fx.reads[0].shard_read;
  h.fx.clear();
  h.core.on_shard_end(
      0, {.shard_read = shard_read, .counts = {.batches = 4, .read = 40, .applied = 40}}, h.fx);
  const auto ends = h.sends_of<wire::Push>();
  REQUIRE(ends.size() == 2);
  CHECK(push_in(ends[0]).end);
  for (const auto& end : ends)
    h.answer_all(end, wire::PartStatus::kAlreadyApplied, wire::kShardEnded);
  const auto ended = h.sends_of<wire::ShardProgress>();
  REQUIRE(!ended.empty());
  CHECK(std::get<wire::ShardProgress>(ended.back().message.body).ended);
  CHECK(std::get<wire::ShardProgress>(ended.back().message.body).batches_acked == 4);
}

}  // namespace
}  // namespace downpour::worker
