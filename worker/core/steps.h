// Steps: takes the batches in flight through pull, compute and push, and handles every answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/tensor/variables.h"
#include "worker/core/backup_order.h"
#include "worker/core/events.h"
#include "worker/core/leases.h"
#include "worker/core/pull_policy.h"
#include "worker/core/requests.h"
#include "worker/core/session.h"
#include "worker/core/slot.h"
#include "worker/core/worker_config.h"

namespace downpour::worker {

/// The activity of a worker. If several apply, the first in this order counts.
enum class Activity : uint8_t {
  kComputing,  // a batch is being computed
  kNetwork,    // a pull waits for its answer or for the floor, or `in_flight` batches wait for ps
  kInput,      // the next batch is still being read
  kNothing,    // there is no shard to read
};

/// Takes each batch of a leased shard through its step, and ends the shard after its last batch.
class Steps {
 public:
  /// Keeps the references.
  Steps(const WorkerConfig& config, Session& session, Requests& requests, Leases& leases,
        PullPolicy& policy)
      : config_(config), session_(session), requests_(requests), leases_(leases), policy_(policy) {}

  /// Sets the tables of the job's model and the largest number of batches in flight. `replicas` is
  /// the number of replicas in synchronous training, otherwise 0. In synchronous training, the
  /// worker computes a batch after all earlier batches of its replica are applied everywhere. It
  /// pulls for it as soon as the batch before is pushed.
  void configure(std::vector<TableSpec> tables, uint32_t in_flight, uint32_t replicas,
                 BackupOrder order);
  const std::vector<TableSpec>& tables() const { return tables_; }
  uint32_t replicas() const { return replicas_; }
  /// Returns true while on_batch() may be called for some shard.
  bool wants_batch() const;
  /// Returns true while on_batch() may be called for the shard of this shard read.
  bool wants_batch_of(uint64_t shard_read) const;
  Activity doing() const;

  void on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx);
  void on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx);
  void on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx);
  void on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx);
  /// Handles a new view, because partitions may have new owners. A batch with an unanswered pull is
  /// pulled again as a whole. Unanswered parts of a push are regrouped by their new owners.
  void on_view(int64_t now_ns, WorkerEffects& fx);
  void on_pull_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);
  void on_push_reply(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);
  void on_reject(int64_t now_ns, const wire::Message& message, WorkerEffects& fx);
  /// Begins the leased shards, and renews those that the worker holds already.
  void on_grant(int64_t now_ns, const wire::LeaseGrant& grant, WorkerEffects& fx);
  /// Returns the number of training batches in flight whose pulls have been sent.
  size_t batches_pulled() const;
  /// Pulls for the batches that were held back and that PullPolicy allows now.
  void pull_held(int64_t now_ns, WorkerEffects& fx);
  /// Call with bounded staleness when the leases may have expired: gradients of values that were
  /// pulled earlier must not be applied. For each training shard with a batch whose pull was sent,
  /// discards all its batches in flight, and reads them again.
  void discard_pulled(WorkerEffects& fx);
  /// Repeats requests that are due.
  void on_tick(int64_t now_ns, WorkerEffects& fx);
  /// Time at which on_tick() has work to do next; INT64_MAX: none.
  int64_t next_deadline_ns() const;

  // Leases are passed by value, because these functions may erase the object that holds the lease.
  /// Drops a shard with its batches in flight.
  void abandon(wire::Lease lease, WorkerEffects& fx);
  /// Reports that the shard failed at `batch`, and drops it.
  void fail_shard(wire::Lease lease, uint32_t batch, const Error& error, WorkerEffects& fx,
                  wire::FailureKind kind = wire::FailureKind::kOther);

 private:
  Slot* find_slot(uint64_t id);
  void forget_requests(const Slot& slot);
  /// Erases the slots for which wanted(slot) holds, and forgets their requests. Returns the number
  /// of erased batches.
  template <typename Wanted>
  size_t erase_slots(Wanted&& wanted) {
    for (auto* slots : {&slots_, &end_slots_}) {
      for (const auto& slot : *slots) {
        if (wanted(*slot)) forget_requests(*slot);
      }
    }
    const auto erased = [&](const auto& slot) { return wanted(*slot); };
    std::erase_if(end_slots_, erased);
    return std::erase_if(slots_, erased);
  }
  void erase_slot(uint64_t id) {
    erase_slots([id](const Slot& slot) { return slot.id == id; });
  }
  void plan_and_pull(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  void plan(Slot& slot);
  const Slot* pushed_before(int64_t now_ns, const Slot& slot) const;
  void pull_ahead(int64_t now_ns, Slot& slot, const Slot& before, WorkerEffects& fx);
  bool awaits_step(const Slot& slot, size_t message) const;
  void send_pull_if_needed(int64_t now_ns, Slot& slot, size_t index, WorkerEffects& fx);
  void send_pull(int64_t now_ns, Slot& slot, size_t index, WorkerEffects& fx);
  void compute_if_pulled(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  bool synchronous() const { return replicas_ > 0; }
  bool shows_step(const Slot& slot, size_t message) const;
  std::optional<uint64_t> version_of(const Slot& slot) const;
  bool may_pull(int64_t now_ns, Slot& slot, uint64_t ahead) const;
  bool is_next(const Slot& slot) const;
  bool has_turn(int64_t now_ns, Slot& slot) const;
  void pull_held(int64_t now_ns, bool left_out_only, WorkerEffects& fx);
  void note_applied(const Slot& slot);
  int64_t hold_delay_ns(const Slot& slot) const;
  bool wants(const Leases::Shard& shard) const;
  void hold_again(int64_t until_ns, Slot& slot);
  void pull_again_after_rollback(WorkerEffects& fx);
  void drop_pull(PullPart& part);
  void copy_pulled_values();
  void push_ready(int64_t now_ns, Leases::Shard& shard, WorkerEffects& fx);
  void begin_push(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  void finish_shard_if_done(int64_t now_ns, ShardId id, wire::Purpose purpose, WorkerEffects& fx);
  void begin_shard_end_marker(int64_t now_ns, Leases::Shard& shard, WorkerEffects& fx);
  void rebuild_pushes(int64_t now_ns, Slot& slot, WorkerEffects& fx);
  void send_push(int64_t now_ns, Slot& slot, PushPart& part, WorkerEffects& fx);
  void give_back_shard(int64_t now_ns, const Slot& slot, WorkerEffects& fx);
  void read_again(Leases::Shard& shard, uint32_t first_batch, WorkerEffects& fx);
  bool handle_gap(Slot& slot, uint32_t watermark, WorkerEffects& fx);
  void drop_pulls_ahead(const Slot& slot);
  void slot_resolved(int64_t now_ns, uint64_t slot_id, WorkerEffects& fx);

  // Delay before a refused request is repeated.
  static constexpr int64_t kRegroupDelayNs = 50 * kMillisecond;

  const WorkerConfig& config_;
  Session& session_;
  Requests& requests_;
  Leases& leases_;
  PullPolicy& policy_;
  std::vector<TableSpec> tables_;
  uint32_t in_flight_ = 1;
  uint32_t replicas_ = 0;
  BackupOrder order_;
  uint64_t last_slot_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;      // batches in flight
  std::vector<std::unique_ptr<Slot>> end_slots_;  // shard-end markers in flight
};

}  // namespace downpour::worker
