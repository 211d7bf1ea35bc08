// Leases: the shards that the chief has leased to this worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/base/result.h"
#include "worker/core/events.h"
#include "worker/core/requests.h"
#include "worker/core/session.h"
#include "worker/core/worker_config.h"

namespace downpour::worker {

/// Returns whether two leases are for the same records and the same purpose. Their attempts may
/// differ.
inline bool same_work(const wire::Lease& a, const wire::Lease& b) {
  return a.purpose == b.purpose && a.shard == b.shard && a.evaluation == b.evaluation;
}

/// Requests leases, has their shards read, and reports their progress.
class Leases {
 public:
  struct Shard {
    wire::Lease lease;
    uint64_t shard_read = 0;  // the newest one; results of earlier ones are ignored
    uint32_t next_push = 0;   // the next batch to push; batches are pushed in order
    uint32_t done = 0;        // number of the shard's batches that are finished or skipped
    uint32_t floor = 0;       // batches below it are skipped: every partition has applied them
    std::optional<ShardEnd> end;
    bool end_sent = false;
    uint64_t bytes_done = 0;
    int64_t progress_at_ns = 0;
    std::vector<OutputMetrics> metrics, slices;  // eval
  };

  /// Keeps the references.
  Leases(const WorkerConfig& config, Session& session, Requests& requests)
      : session_(session), requests_(requests), wanted_(config.leases_wanted) {}

  /// Sets the number of shards to read at the same time.
  void want(uint32_t leases) { wanted_ = leases; }
  /// Requests leases if fewer shards are read than wanted.
  void request(int64_t now_ns, WorkerEffects& fx);
  /// Returns whether `grant` answers the newest request.
  bool accept(int64_t now_ns, RequestId request, const wire::LeaseGrant& grant);
  /// If the worker holds a lease of the same work, with the same quarantined batches and the same
  /// `single_step`, takes over the higher attempt. Returns false otherwise.
  bool renew(const wire::Lease& lease);

  bool empty() const { return shards_.empty(); }
  const Shard& front() const { return *shards_.front(); }
  /// Returns null if the shard is not held. The pointer is valid until the shard is dropped.
  Shard* find(const wire::Lease& lease);
  Shard* find_read(uint64_t shard_read);
  /// For a shard that is leased for training: returns whether this worker holds no earlier shard of
  /// the same replica. A replica takes its shards in ascending order.
  bool is_first(const Shard& shard) const { return before(shard) == nullptr; }
  /// Returns the shard that this worker holds and that comes before this one in its replica, or
  /// null.
  const Shard* before(const Shard& shard) const;
  /// Returns whether wanted(shard) holds for some shard that is leased for training.
  template <typename Wanted>
  bool any_trained(Wanted&& wanted) const {
    return any([&](const Shard& shard) {
      return shard.lease.purpose == wire::Purpose::kTrain && wanted(shard);
    });
  }
  /// Returns whether wanted(shard) holds for some shard.
  template <typename Wanted>
  bool any(Wanted&& wanted) const {
    return std::ranges::any_of(shards_, [&](const auto& shard) { return wanted(*shard); });
  }
  /// Returns the number of shards whose end is not known yet.
  uint32_t reading_count() const;

  /// Begins a leased shard.
  void begin(int64_t now_ns, const wire::Lease& lease, WorkerEffects& fx);
  /// Stops reading a shard and forgets it. Returns false if it is not held.
  bool drop(const wire::Lease& lease, WorkerEffects& fx);
  /// Forgets a shard that is done.
  void remove(const Shard& shard);
  /// Reads the shard from a batch on.
  void read(Shard& shard, uint32_t first_batch, WorkerEffects& fx);
  /// Continues a single-step lease; does nothing for other leases. Reports each batch before the
  /// next one is read, so that the chief knows at which batch this worker died.
  void read_on(int64_t now_ns, Shard& shard, WorkerEffects& fx);
  void report_progress(int64_t now_ns, Shard& shard, bool ended, WorkerEffects& fx);
  /// Reports an evaluated or predicted shard whose batches are all done, and forgets it. Returns a
  /// trained one whose shard-end marker must be pushed now, otherwise null.
  Shard* finish_if_done(ShardId id, wire::Purpose purpose, WorkerEffects& fx);

  /// Repeats the request and reports the progress when they are due.
  void on_tick(int64_t now_ns, WorkerEffects& fx);
  /// Time at which a request is due; INT64_MAX: none.
  int64_t next_deadline_ns() const;

 private:
  Session& session_;
  Requests& requests_;
  uint32_t wanted_;
  RequestId request_{};
  int64_t deadline_ns_ = 0;  // when to repeat the request, or to send the next one
  uint32_t request_wanted_ = 0;
  uint64_t last_shard_read_ = 0;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace downpour::worker
