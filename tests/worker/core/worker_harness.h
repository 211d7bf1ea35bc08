// Harness: a worker core with a chief and ps that the test plays.
#pragma once

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "shared/base/hash.h"
#include "tests/support/travel.h"
#include "worker/core/worker_core.h"

namespace downpour::worker {

inline constexpr uint32_t kPartitions = 4;

// A worker core. The test plays its chief and its ps.
struct Harness {
  explicit Harness(WorkerConfig config = {.incarnation = Incarnation{77}, .leases_wanted = 1})
      : core(std::move(config)) {}
  WorkerCore core;
  WorkerEffects fx;
  int64_t now_ns = 0;
  uint32_t replicas = 0;  // of synchronous training; 0: not synchronous
  uint32_t backups = 0;   // replicas that a step may leave out
  wire::Lease lease{.purpose = wire::Purpose::kTrain, .shard = {0, 3}, .plan_hash = 9};
  std::vector<TableSpec> tables{{.name = "w", .table_variables = {{.name = "w", .dim = 1}}}};

  wire::View view(uint32_t owners, uint32_t n = 1) const {
    wire::View v{.id = {1, n}};
    for (uint32_t o = 0; o < owners; ++o)
      v.owners.push_back(
          {.index = o, .incarnation = Incarnation{o + 10 * n}, .endpoint = "inproc://ps"});
    for (uint32_t p = 0; p < kPartitions; ++p)
      v.partitions.push_back({p * owners / kPartitions, {1, n}});
    return v;
  }
  void from(Incarnation who, wire::Body body, RequestId request = {}, Bytes values = {}) {
    fx.clear();
    wire::Message message;
    message.envelope.run = 5;
    message.envelope.request = request;
    message.body = std::move(body);
    message.values = std::move(values);
    auto arrived = testing::travel(message);
    INFO((arrived ? "" : arrived.error().what));
    REQUIRE(arrived);
    core.on_message(now_ns, who, std::move(*arrived), fx);
    check_sends();
  }
  // Checks that every message can travel to a peer in another process.
  void check_sends() const {
    for (const auto& send : fx.sends) {
      INFO(testing::travel_fault(send.message));
      CHECK(testing::travel(send.message));
    }
  }
  // Brings the core to the state in which it is welcomed and configured, has a view, and holds the
  // lease.
  void begin(uint32_t owners = 2, uint32_t in_flight = 2, std::optional<uint64_t> staleness = {}) {
    core.start(now_ns, fx);
    REQUIRE(std::holds_alternative<wire::Hello>(fx.sends.at(0).message.body));
    from(kChief, wire::Welcome{.job = "job",
                               .plan_hash = 9,
                               .shard_bytes = 1,
                               .heartbeat_ns = kSecond,
                               .lease_ns = 3 * kSecond});
    REQUIRE(fx.welcomed);
    fx.clear();
    core.configure(now_ns,
                   {.tables = tables,
                    .in_flight = in_flight,
                    .staleness = staleness,
                    .replicas = replicas,
                    .backups = backups,
                    .chief_silence_ns = 60 * kSecond},
                   fx);
    from(kChief, view(owners));
    REQUIRE(fx.sends.size() == 1);
    REQUIRE(std::holds_alternative<wire::LeaseRequest>(fx.sends[0].message.body));
    from(kChief, wire::LeaseGrant{{lease}, 0}, fx.sends[0].message.envelope.request);
    REQUIRE(fx.reads.size() == 1);
    shard_read = fx.reads[0].shard_read;
  }
  uint64_t shard_read = 0;
  PreparedBatchPtr batch(uint32_t n, std::vector<uint64_t> keys = {1, 2, 3, 4, 5, 6, 7, 8}) {
    auto prepared = std::make_shared<PreparedBatch>();
    prepared->lease = lease;
    prepared->shard_read = shard_read;
    prepared->batch.id = {lease.shard.epoch, lease.shard.shard, n};
    prepared->batch.records = 10;
    prepared->batch.tables = {{TableId{0}, std::move(keys)}};
    return prepared;
  }
  std::vector<WorkerEffects::Send> sends() const { return fx.sends; }
  template <typename Body>
  std::vector<WorkerEffects::Send> sends_of() const {
    check_sends();
    std::vector<WorkerEffects::Send> out;
    for (const auto& send : fx.sends)
      if (std::holds_alternative<Body>(send.message.body)) out.push_back(send);
    return out;
  }
  // Answers every pull among `asked` with zeros. The effects of the last answer remain.
  void answer_pulls(const std::vector<WorkerEffects::Send>& asked) {
    for (const auto& send : asked) {
      const auto& pull = std::get<wire::Pull>(send.message.body);
      uint32_t keys = 0;
      for (const wire::Section& section : pull.sections) keys += section.keys;
      from(send.to, wire::PullReply{}, send.message.envelope.request,
           Bytes::of(std::vector<float>(keys)));
    }
  }
  void compute(uint64_t slot, const PullPlan& plan) {
    Computed computed{.slot = slot};
    for (const PartMessage& message : plan.messages)
      computed.gradients.push_back(Bytes::of(std::vector<float>(message.value_bytes / 4, 1.0F)));
    computed.metrics.resize(1);
    fx.clear();
    core.on_computed(now_ns, std::move(computed), fx);
    check_sends();
  }
  // Gives batch `n` to the core and returns its pulls.
  std::vector<WorkerEffects::Send> pull(uint32_t n) {
    fx.clear();
    core.on_batch(now_ns, batch(n), fx);
    return sends_of<wire::Pull>();
  }
  // Completes the only computation of the last event and returns its pushes.
  std::vector<WorkerEffects::Send> push_computed() {
    REQUIRE(fx.computes.size() == 1);
    const auto task = fx.computes[0];
    compute(task.slot, task.batch->plan);
    return sends_of<wire::Push>();
  }
  // Brings batch `n` to its pushes and returns them.
  std::vector<WorkerEffects::Send> push(uint32_t n) {
    answer_pulls(pull(n));
    return push_computed();
  }
  // Reads and pulls the batches below `count`. Returns the computation of each.
  std::map<uint32_t, WorkerEffects::Compute> computing(uint32_t count) {
    std::map<uint32_t, WorkerEffects::Compute> tasks;
    for (uint32_t n = 0; n < count; ++n) {
      answer_pulls(pull(n));
      tasks[n] = fx.computes.at(0);
    }
    return tasks;
  }
  void applied(const WorkerEffects::Send& send) {
    from(send.to, wire::PushReply{.applied = std::get<wire::Push>(send.message.body).covered},
         send.message.envelope.request);
  }
  void answer_all(const WorkerEffects::Send& send, wire::PartStatus status, uint32_t watermark) {
    wire::PushReply reply;
    std::get<wire::Push>(send.message.body).covered.for_each([&](PartitionId p) {
      reply.others.push_back({p, status, watermark});
    });
    from(send.to, reply, send.message.envelope.request);
  }
  void tick(int64_t later_ns) {
    now_ns += later_ns;
    fx.clear();
    core.on_tick(now_ns, fx);
    check_sends();
  }
};

inline wire::Push push_in(const WorkerEffects::Send& send) {
  return std::get<wire::Push>(send.message.body);
}

struct BegunHarness : Harness {
  BegunHarness() { begin(); }
};

}  // namespace downpour::worker
