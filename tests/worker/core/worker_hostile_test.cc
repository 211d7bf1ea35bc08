// A worker with a hostile chief and hostile ps.
#include "tests/shared/wire/random_message.h"
#include "tests/worker/core/worker_harness.h"

namespace downpour::worker {
namespace {

/// A worker core that has begun, and random messages to it.
struct HostileHarness : BegunHarness {
  explicit HostileHarness(uint64_t seed) : random(seed), rng(seed) {}
  wire::Message message() { return random.next(wire::Kind(1 + rng.below(wire::kKindMax))); }
  wire::RandomMessages random;
  Rng rng;
};

TEST_CASE("no message of another run changes what a worker does", "[worker][hostile]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    HostileHarness h(seed);
    for (uint32_t batch = 0; batch < 20; ++batch) {
      for (int i = 0; i < 100; ++i) {  // of another run, from a ps that has taken over a port
        wire::Message message = h.message();
        if (auto* reject = std::get_if<wire::Reject>(&message.body)) {
          reject->code = ErrorCode::kUnavailable;
          message.envelope.run = 0;
          message.envelope.request = RequestId(h.rng.below(40));
        } else if (message.envelope.run == 0 || message.envelope.run == 5) {
          message.envelope.run = 6;
        }
        h.fx.clear();
        h.core.on_message(h.now_ns, Incarnation{10 + h.rng.below(3)}, std::move(message), h.fx);
        CHECK(h.fx.exits.empty());
        CHECK(h.fx.sends.empty());
      }
      for (const auto& push : h.push(batch)) h.applied(push);
    }
    CHECK(h.core.wants_batch());
  }
}

TEST_CASE("no message of a ps or of a forged chief aborts a worker", "[worker][hostile]") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    HostileHarness h(seed);
    uint32_t next = 0;
    for (int i = 0; i < 600; ++i) {
      const bool chief = h.rng.below(2) == 0;
      wire::Message message = h.message();
      message.envelope.run = 5;
      message.envelope.view = {1, uint32_t(h.rng.below(4))};
      message.envelope.request = RequestId(h.rng.below(60));
      if (chief && (std::holds_alternative<wire::Stop>(message.body) ||
                    std::holds_alternative<wire::Refused>(message.body) ||
                    std::holds_alternative<wire::Welcome>(message.body))) {
        continue;  // these end the worker, as they should
      }
      if (std::holds_alternative<wire::View>(message.body) && h.rng.below(2) == 0)
        message.body = h.view(1 + uint32_t(h.rng.below(3)), 1 + uint32_t(h.rng.below(90)));
      if (auto* grant = std::get_if<wire::LeaseGrant>(&message.body)) {
        grant->leases.resize(1);
        grant->leases[0].plan_hash = 9;
      }
      if (auto* revoked = std::get_if<wire::LeaseRevoked>(&message.body); revoked && h.rng.below(2))
        revoked->lease = h.lease;
      if (auto* reply = std::get_if<wire::PushReply>(&message.body)) {
        reply->applied.words.resize(1);
        for (auto& other : reply->others) other.partition = PartitionId(uint32_t(h.rng.below(5)));
      }
      h.fx.clear();
      h.core.on_message(h.now_ns, chief ? kChief : Incarnation{10 + h.rng.below(2)},
                        std::move(message), h.fx);
      for (auto& read : h.fx.reads) {
        h.lease = read.lease;
        h.shard_read = read.shard_read;
        next = read.first_batch;
      }
      if (h.core.wants_batch()) h.core.on_batch(h.now_ns, h.batch(next++), h.fx);
      const auto computes = std::exchange(h.fx.computes, {});
      for (const auto& compute : computes) h.compute(compute.slot, compute.batch->plan);
      if (h.rng.below(4) == 0) h.tick(int64_t(h.rng.below(3)) * kSecond);
      if (h.rng.below(9) == 0) {
        h.fx.clear();
        h.core.on_shard_end(h.now_ns, {h.shard_read, {.batches = next}, 1}, h.fx);
      }
      h.check_sends();
    }
  }
}

}  // namespace
}  // namespace downpour::worker
