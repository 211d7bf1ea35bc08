// WorkerCore: requests leases of shards from the chief, pulls the variables that each batch needs,
// has the batch computed, and pushes the gradients. A push consists of one *part* for each
// partition. The core repeats a part until the partition acknowledges it. The core is a
// deterministic state machine without socket, file, thread or clock (time is an argument). Its
// shell carries out the effects, `fx`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/tensor/variables.h"
#include "worker/core/events.h"
#include "worker/core/leases.h"
#include "worker/core/pull_policy.h"
#include "worker/core/requests.h"
#include "worker/core/session.h"
#include "worker/core/steps.h"
#include "worker/core/worker_config.h"

namespace downpour::worker {

class WorkerCore {
 public:
  explicit WorkerCore(WorkerConfig config);
  WorkerCore(const WorkerCore&) = delete;  // its members refer to one another
  WorkerCore& operator=(const WorkerCore&) = delete;

  void start(int64_t now_ns, WorkerEffects& fx) { session_.start(now_ns, fx); }
  void on_message(int64_t now_ns, Incarnation from, wire::Message&& message, WorkerEffects& fx);
  /// Configures the core. The shell calls this function after WorkerEffects::welcomed; until then
  /// the core neither requests leases nor pulls.
  void configure(int64_t now_ns, JobSettings settings, WorkerEffects& fx);
  /// Sets the number of shards to read at the same time. In synchronous training it is at least
  /// twice the number of replicas.
  void want_leases(int64_t now_ns, uint32_t leases, WorkerEffects& fx);
  /// Returns true while on_batch() may be called with a batch of some shard.
  bool wants_batch() const { return steps_.wants_batch(); }
  /// Returns true while on_batch() may be called with a batch of this shard read.
  bool wants_batch_of(uint64_t shard_read) const { return steps_.wants_batch_of(shard_read); }
  /// Returns true if some shard is being read.
  bool reads() const { return leases_.reading_count() > 0; }
  /// Returns whether the worker computes, or what it waits for.
  Activity doing() const { return steps_.doing(); }
  void on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx) {
    steps_.on_batch(now_ns, std::move(batch), fx);
  }
  void on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx) {
    steps_.on_shard_end(now_ns, end, fx);
  }
  void on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx) {
    steps_.on_read_failed(now_ns, failure, fx);
    steps_.pull_held(now_ns, fx);
  }
  void on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx) {
    discard_expired(now_ns, fx);
    steps_.on_computed(now_ns, std::move(computed), fx);
    steps_.pull_held(now_ns, fx);
  }
  /// Ends the process after an error that concerns no shard, for example if the model cannot be
  /// built. Reports the error to the chief first.
  void on_fatal(const Error& error, WorkerEffects& fx) { session_.on_fatal(error, fx); }
  /// Ends the process after an error that other workers do not have. The job continues.
  void on_unsuitable(const Error& error, WorkerEffects& fx) { session_.on_unsuitable(error, fx); }
  /// Ends the process with exit status 78. The shell calls this function after
  /// WorkerEffects::other_job, if this worker cannot continue under the job of the restarted chief.
  /// `what` says what differs.
  void on_other_job(const std::string& what, WorkerEffects& fx) { session_.on_other_job(what, fx); }
  /// Handles a stop signal.
  /// - A worker that `downpour train` has started (WorkerConfig::local) reports the signal to the
  ///   chief and continues until the chief ends it. If no chief has welcomed it yet, it ends with
  ///   exit status 128 + signal.
  /// - Any other worker reports the signal (if it is welcomed), returns all its leases, and ends
  ///   with exit status 0.
  void leave(int64_t now_ns, int signal, WorkerEffects& fx);
  /// Sends heartbeats, repeats requests that are due, and ends the process if the chief is silent
  /// for too long.
  void on_tick(int64_t now_ns, WorkerEffects& fx);
  /// Returns the time at which on_tick() has work to do next.
  int64_t next_deadline_ns() const;

  void set_stats(const ProcessStats& stats) { session_.set_stats(stats); }
  const wire::Welcome& welcome() const { return session_.welcome(); }
  /// Returns the run of the chief that welcomed this worker; 0 if there is none yet.
  uint64_t run() const { return session_.run(); }
  /// Returns the id of the newest view that the worker knows; {0, 0} if there is none yet.
  ViewId view() const { return session_.placements() ? session_.placements()->view.id : ViewId{}; }
  const std::vector<TableSpec>& tables() const { return steps_.tables(); }
  /// Returns this worker's clock and the floor that it knows; see PullPolicy.
  const PullPolicy& pull_policy() const { return policy_; }
  /// Returns the number of training batches in flight whose pulls have been sent.
  size_t batches_pulled() const { return steps_.batches_pulled(); }
  /// Returns the number of pulls and pushes that have not been answered.
  size_t requests_outstanding() const { return requests_.pending_count(); }

 private:
  void from_chief(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);
  void from_ps(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);
  void discard_expired(int64_t now_ns, WorkerEffects& fx);

  WorkerConfig config_;
  Requests requests_;
  PullPolicy policy_;
  Session session_;
  Leases leases_;
  Steps steps_;
};

}  // namespace downpour::worker
