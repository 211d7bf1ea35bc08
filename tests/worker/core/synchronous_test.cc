// A worker in synchronous training: when it pulls, what it pushes, and when it pulls again.
#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

// Answers every pull among `asked` with zeros and this version of each partition.
void answer_pulls_at(Harness& h, const std::vector<WorkerEffects::Send>& asked, uint64_t version) {
  for (const auto& send : asked) {
    uint32_t keys = 0;
    for (const wire::Section& section : std::get<wire::Pull>(send.message.body).sections)
      keys += section.keys;
    h.from(send.to, wire::PullReply{.versions = {version, version}}, send.message.envelope.request,
           Bytes::of(std::vector<float>(keys)));
  }
}

std::vector<WorkerEffects::Send> take(Harness& h, uint32_t batch, std::vector<uint64_t> keys) {
  h.fx.clear();
  h.core.on_batch(h.now_ns, h.batch(batch, std::move(keys)), h.fx);
  return h.sends_of<wire::Pull>();
}

// Brings batch `n` to its pushes and returns them.
std::vector<WorkerEffects::Send> push_at(Harness& h, uint32_t n, uint64_t version) {
  answer_pulls_at(h, take(h, n, {1, 2, 3, 4, 5, 6, 7, 8}), version);
  REQUIRE(h.fx.computes.size() == 1);
  const auto task = h.fx.computes[0];
  h.compute(task.slot, task.batch->plan);
  return h.sends_of<wire::Push>();
}

struct SyncHarness : Harness {
  explicit SyncHarness(uint32_t replica, std::vector<uint32_t> quarantined = {}) {
    lease.replica = replica;
    lease.quarantined_batches = std::move(quarantined);
    replicas = 2;
    begin();
  }
};

uint64_t step_in(const WorkerEffects::Send& pull) {
  return std::get<wire::Pull>(pull.message.body).step;
}

TEST_CASE("a batch is computed when the earlier batches of its replica are applied everywhere",
          "[worker]") {
  SyncHarness h(1);
  const auto pushes = push_at(h, 0, 6);
  REQUIRE(pushes.size() == 2);
  for (const auto& push : pushes) {
    CHECK(push_in(push).step == 7);
    CHECK(push_in(push).replica == 1);
  }
  const auto ahead = take(h, 1, {1, 2});
  REQUIRE(ahead.size() == 2);  // also from a ps without keys of the batch
  for (const auto& pull : ahead) CHECK(step_in(pull) == 8);
  h.tick(3 * kSecond);
  CHECK(h.sends_of<wire::Pull>().empty());  // the step may take long
  const auto again = h.sends_of<wire::Push>();
  REQUIRE(again.size() == 2);
  answer_pulls_at(h, ahead, 7);
  h.applied(again[0]);
  CHECK(h.fx.computes.empty());  // one ps has not acknowledged the batch before
  h.applied(again[1]);
  REQUIRE(h.fx.computes.size() == 1);
  CHECK(h.fx.computes[0].step == 8);
}

TEST_CASE("a pull that was sent ahead without success is sent again after the step", "[worker]") {
  SyncHarness h(0);
  const auto pushes = push_at(h, 0, 6);
  const auto ahead = take(h, 1, {1, 2});
  REQUIRE(ahead.size() == 2);
  // One ps has no room for it. The other one belongs to a release in which pulls do not wait.
  h.from(ahead[0].to, wire::PullReply{.status = wire::PullStatus::kOverloaded},
         ahead[0].message.envelope.request);
  answer_pulls_at(h, {ahead[1]}, 6);
  h.tick(kSecond / 10);
  CHECK(h.sends_of<wire::Pull>().empty());
  for (const auto& push : pushes) h.applied(push);
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  for (const auto& pull : again) CHECK(step_in(pull) == 0);
  answer_pulls_at(h, again, 7);
  REQUIRE(h.fx.computes.size() == 1);
  CHECK(h.fx.computes[0].step == 8);
}

TEST_CASE("a pull that was sent ahead and is lost is repeated after the step", "[worker]") {
  SyncHarness h(0);
  const auto pushes = push_at(h, 0, 6);
  CHECK(take(h, 1, {1, 2}).size() == 2);
  for (const auto& push : pushes) h.applied(push);
  CHECK(h.sends_of<wire::Pull>().empty());  // the answers are on their way
  h.tick(3 * kSecond);
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  for (const auto& pull : again) CHECK(step_in(pull) == 0);
}

TEST_CASE("a pull ahead for a step that the batch before is not in is repeated at once",
          "[worker]") {
  SyncHarness h(0);
  const auto pushes = push_at(h, 0, 6);
  CHECK(take(h, 1, {1, 2}).size() == 2);
  // The batch was applied under an earlier lease, so that step 7 waits for this batch.
  for (const auto& push : pushes) h.answer_all(push, wire::PartStatus::kAlreadyApplied, 1);
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  for (const auto& pull : again) CHECK(step_in(pull) == 0);
}

/// Lets the pause pass after which values are pulled again, and answers with those of `step`.
void pull_again(SyncHarness& h, uint64_t step) {
  h.tick(kSecond / 10);
  const auto pulls = h.sends_of<wire::Pull>();
  REQUIRE(pulls.size() == 2);
  answer_pulls_at(h, pulls, step);
}

TEST_CASE("values of partitions at different steps are pulled again", "[worker]") {
  SyncHarness h(0);
  const auto pulls = take(h, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  REQUIRE(pulls.size() == 2);
  answer_pulls_at(h, {pulls[0]}, 6);
  answer_pulls_at(h, {pulls[1]}, 7);
  CHECK(h.fx.computes.empty());
  CHECK(h.sends_of<wire::Pull>().empty());
  pull_again(h, 7);
  CHECK(h.fx.computes.size() == 1);
}

TEST_CASE("a part for another step is computed from new values", "[worker]") {
  SyncHarness h(0);
  const auto pushes = push_at(h, 0, 6);
  h.answer_all(pushes[0], wire::PartStatus::kOtherStep, 0);
  CHECK(h.sends_of<wire::Push>().empty());
  pull_again(h, 9);
  REQUIRE(h.fx.computes.size() == 1);
  const auto task = h.fx.computes[0];
  h.compute(task.slot, task.batch->plan);
  REQUIRE(h.sends_of<wire::Push>().size() == 2);
  CHECK(push_in(h.sends_of<wire::Push>()[0]).step == 10);
}

TEST_CASE("the batch after a quarantined one is pushed, though the one before was pushed twice",
          "[worker]") {
  SyncHarness h(0, {1});
  const auto pushes = push_at(h, 0, 6);
  auto empty = h.batch(1, {});
  empty->batch.quarantined = true;
  empty->batch.records = 0;
  h.fx.clear();
  h.core.on_batch(h.now_ns, empty, h.fx);
  const auto markers = h.sends_of<wire::Push>();
  REQUIRE(markers.size() == 2);
  h.answer_all(pushes[0], wire::PartStatus::kOtherStep, 0);
  pull_again(h, 7);
  REQUIRE(h.fx.computes.size() == 1);
  h.compute(h.fx.computes[0].slot, h.fx.computes[0].batch->plan);
  for (const auto& push : h.sends_of<wire::Push>()) h.applied(push);
  for (const auto& marker : markers) h.applied(marker);
  CHECK(push_at(h, 2, 8).size() == 2);
}

TEST_CASE("a push for which a ps has room now is sent again at once, and alone", "[worker]") {
  SyncHarness h(0);
  const auto pushes = push_at(h, 0, 6);
  REQUIRE(pushes.size() == 2);
  h.answer_all(pushes[1], wire::PartStatus::kSendAgain, 0);
  const auto again = h.sends_of<wire::Push>();
  REQUIRE(again.size() == 1);
  CHECK(push_in(again[0]) == push_in(pushes[1]));
  CHECK(again[0].message.values.size() == pushes[1].message.values.size());
  CHECK(again[0].message.envelope.request != pushes[1].message.envelope.request);
  h.applied(pushes[0]);
  h.applied(again[0]);
  CHECK(take(h, 1, {1, 2}).size() == 2);  // the batch is done
}

TEST_CASE("a view that gives every partition a new generation voids the pulled values",
          "[worker]") {
  SyncHarness h(0);
  const auto pushes = push_at(h, 0, 6);
  wire::View moved = h.view(2, 2);
  moved.partitions[3].ownership_generation = {1, 1};  // one partition has kept its state
  h.from(kChief, moved);
  CHECK(h.sends_of<wire::Pull>().empty());
  CHECK_FALSE(h.sends_of<wire::Push>().empty());
  h.from(kChief, h.view(2, 3));
  CHECK(h.sends_of<wire::Pull>().size() == 2);
  CHECK(h.sends_of<wire::Push>().empty());
}

TEST_CASE("a shard waits for an earlier shard of its replica", "[worker]") {
  SyncHarness h(0);
  wire::Lease earlier = h.lease;
  earlier.shard.shard = 1;
  REQUIRE(h.sends_of<wire::LeaseRequest>().size() == 1);
  h.from(kChief, wire::LeaseGrant{{earlier}, 0},
         h.sends_of<wire::LeaseRequest>()[0].message.envelope.request);
  REQUIRE(h.fx.reads.size() == 1);
  CHECK(take(h, 0, {1, 2}).empty());
  h.lease = earlier;
  h.shard_read = h.fx.reads.empty() ? h.shard_read + 1 : h.fx.reads[0].shard_read;
  CHECK(take(h, 0, {1, 2}).size() == 2);
}

// A replica with two shards, the first of which has one batch. That batch is pushed.
struct TwoShards : SyncHarness {
  TwoShards() : SyncHarness(0) {
    next = lease;
    next.shard.shard = lease.shard.shard + 2;
    REQUIRE(sends_of<wire::LeaseRequest>().size() == 1);
    from(kChief, wire::LeaseGrant{{next}, 0},
         sends_of<wire::LeaseRequest>()[0].message.envelope.request);
    REQUIRE(fx.reads.size() == 1);
    next_read = fx.reads[0].shard_read;
    pushes = push_at(*this, 0, 6);
    REQUIRE(pushes.size() == 2);
  }
  void end(uint32_t batches) {
    fx.clear();
    core.on_shard_end(now_ns, {.shard_read = shard_read, .counts = {.batches = batches}}, fx);
  }
  std::vector<WorkerEffects::Send> take_next() {
    std::swap(lease, next);
    std::swap(shard_read, next_read);
    auto pulls = take(*this, 0, {1, 2, 3, 4, 5, 6, 7, 8});
    std::swap(lease, next);
    std::swap(shard_read, next_read);
    return pulls;
  }
  wire::Lease next;
  uint64_t next_read = 0;
  std::vector<WorkerEffects::Send> pushes;
};

TEST_CASE("the first batch of a shard is pulled ahead after the last one of the shard before it",
          "[worker]") {
  TwoShards h;
  h.end(1);
  const auto ahead = h.take_next();
  REQUIRE(ahead.size() == 2);
  for (const auto& pull : ahead) CHECK(step_in(pull) == 8);
  answer_pulls_at(h, ahead, 7);
  for (const auto& push : h.pushes) h.applied(push);
  CHECK(h.fx.computes.empty());  // the shard before has not ended everywhere
  const auto markers = h.sends_of<wire::Push>();
  REQUIRE(markers.size() == 2);
  for (const auto& marker : markers) h.applied(marker);
  REQUIRE(h.fx.computes.size() == 1);
  CHECK(h.fx.computes[0].step == 8);
}

TEST_CASE("a shard is not pulled ahead while the shard before it may have more batches",
          "[worker]") {
  TwoShards h;
  SECTION("its end is not known") {}
  SECTION("another batch follows") { h.end(2); }
  CHECK(h.take_next().empty());
}

TEST_CASE("a worker requests two shards of every replica, and takes two batches of each at most",
          "[worker]") {
  SyncHarness h(0);  // of two replicas
  const auto requests = h.sends_of<wire::LeaseRequest>();
  REQUIRE(requests.size() == 1);
  CHECK(std::get<wire::LeaseRequest>(requests[0].message.body).wanted == 3);
  // The other replica's first shard must be requested although two shards are being read.
  wire::Lease ahead = h.lease;
  ahead.shard.shard += 2;
  h.from(kChief, wire::LeaseGrant{{ahead}, 0}, requests[0].message.envelope.request);
  const uint64_t ahead_read = h.fx.reads.at(0).shard_read;
  const auto again = h.sends_of<wire::LeaseRequest>();
  REQUIRE(again.size() == 1);
  CHECK(std::get<wire::LeaseRequest>(again[0].message.body).wanted == 2);
  for (const uint32_t n : {0U, 1U}) {
    CHECK(h.core.wants_batch_of(h.shard_read));
    h.core.on_batch(h.now_ns, h.batch(n), h.fx);
  }
  CHECK_FALSE(h.core.wants_batch_of(h.shard_read));
  CHECK(h.core.wants_batch_of(ahead_read));
}

// ---- with backups

// A worker with two replicas, which computes one batch at a time. Each replica has one shard.
struct BackupsHarness : Harness {
  BackupsHarness() {
    replicas = 2;
    backups = 1;
    begin();
    other = lease;
    other.shard.shard = lease.shard.shard + 1;
    other.replica = 1;
    REQUIRE(sends_of<wire::LeaseRequest>().size() == 1);
    from(kChief, wire::LeaseGrant{{other}, 0},
         sends_of<wire::LeaseRequest>()[0].message.envelope.request);
    REQUIRE(fx.reads.size() == 1);
    other_read = fx.reads[0].shard_read;
  }
  std::vector<WorkerEffects::Send> take_other(uint32_t n) {
    std::swap(lease, other);
    std::swap(shard_read, other_read);
    auto pulls = take(*this, n, {1, 2, 3, 4, 5, 6, 7, 8});
    std::swap(lease, other);
    std::swap(shard_read, other_read);
    return pulls;
  }
  // Answers the pulls, and returns the computation that begins.
  WorkerEffects::Compute pulled(const std::vector<WorkerEffects::Send>& pulls, uint64_t version) {
    answer_pulls_at(*this, pulls, version);
    REQUIRE(fx.computes.size() == 1);
    return fx.computes[0];
  }
  std::vector<WorkerEffects::Send> computed(const WorkerEffects::Compute& task) {
    now_ns += kSecond / 2;  // the time of the computation
    compute(task.slot, task.batch->plan);
    return sends_of<wire::Push>();
  }
  wire::Lease other;
  uint64_t other_read = 0;
};

TEST_CASE("a batch that is computed for a step that is over is computed again first", "[worker]") {
  BackupsHarness h;
  const auto first = h.pulled(take(h, 0, {1, 2, 3, 4, 5, 6, 7, 8}), 6);
  const auto second = h.pulled(h.take_other(0), 6);
  const auto pushes = h.computed(first);
  REQUIRE(pushes.size() == 2);
  CHECK(take(h, 1, {1, 2, 3, 4, 5, 6, 7, 8}).empty());
  h.applied(pushes[0]);  // the step has left out the other replica
  h.applied(pushes[1]);
  CHECK(h.sends_of<wire::Pull>().empty());  // the next batch would delay the one that was left out

  // The outdated gradients are not pushed. The batch is pulled again, before the other replica's.
  CHECK(h.computed(second).empty());
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  const auto task = h.pulled(again, 7);
  CHECK(task.batch->batch.id.shard == h.other.shard.shard);
  const auto repeated = h.computed(task);
  REQUIRE(repeated.size() == 2);
  CHECK(push_in(repeated[0]).step == 8);

  // Now the step leaves out the first replica, which is computed next.
  CHECK(h.sends_of<wire::Pull>().empty());
  h.applied(repeated[0]);
  h.applied(repeated[1]);
  const auto next = h.sends_of<wire::Pull>();
  REQUIRE(next.size() == 2);
  CHECK(h.pulled(next, 8).batch->batch.id == BatchId{0, h.lease.shard.shard, 1});
}

TEST_CASE("a batch that waits for others begins when their step takes too long", "[worker]") {
  BackupsHarness h;
  const auto first = h.pulled(take(h, 0, {1, 2, 3, 4, 5, 6, 7, 8}), 6);
  const auto second = h.pulled(h.take_other(0), 6);
  const auto pushes = h.computed(first);
  h.applied(pushes[0]);
  h.applied(pushes[1]);
  CHECK(take(h, 1, {1, 2, 3, 4, 5, 6, 7, 8}).empty());
  h.computed(second);
  const auto task = h.pulled(h.sends_of<wire::Pull>(), 7);
  h.computed(task);  // after half a second
  CHECK(h.sends_of<wire::Pull>().empty());
  CHECK(h.core.next_deadline_ns() <= h.now_ns + kSecond);
  h.tick(kSecond);
  CHECK(h.sends_of<wire::Pull>().size() == 2);
}

TEST_CASE("a batch that was left out is pulled again soon", "[worker]") {
  BackupsHarness h;
  const auto first = h.pulled(take(h, 0, {1, 2, 3, 4, 5, 6, 7, 8}), 6);
  const auto pushes = h.computed(first);
  h.answer_all(pushes[0], wire::PartStatus::kOtherStep, 0);
  h.tick(kMillisecond);
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  answer_pulls_at(h, {again[0]}, 7);
  answer_pulls_at(h, {again[1]}, 6);  // this ps is about to apply the step
  CHECK(h.fx.computes.empty());
  h.tick(2 * kMillisecond);
  CHECK(h.sends_of<wire::Pull>().size() == 2);
}

TEST_CASE("after a rollback a step that was over is computed anew", "[worker]") {
  BackupsHarness h;
  const auto pushes = h.computed(h.pulled(take(h, 0, {1, 2, 3, 4, 5, 6, 7, 8}), 6));
  h.applied(pushes[0]);
  h.from(kChief, h.view(2, 2));  // all partitions have a new generation
  const auto again = h.sends_of<wire::Pull>();
  REQUIRE(again.size() == 2);
  CHECK(h.computed(h.pulled(again, 6)).size() == 2);
}

}  // namespace
}  // namespace downpour::worker
