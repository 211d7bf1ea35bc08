// WorkerCore: requests leases, pulls what each batch needs, has it computed, pushes the gradients,
// and repeats each part until it is acknowledged. A deterministic state machine without socket,
// file, thread or clock (time is an argument).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared/tensor/variables.h"
#include "worker/core/events.h"
#include "worker/core/leases.h"
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
  /// Configures the core after `welcomed`: the tables of the job's model, the batches in flight,
  /// and the time limit for a silent chief. Pulls begin only after this call.
  void configure(int64_t now_ns, std::vector<TableSpec> tables, uint32_t in_flight,
                 int64_t chief_silence_ns, WorkerEffects& fx);
  /// Sets the number of shards to read at the same time.
  void want_leases(int64_t now_ns, uint32_t leases, WorkerEffects& fx);
  /// True while on_batch() may be called.
  bool wants_batch() const { return steps_.wants_batch(); }
  /// Whether some shard is being read.
  bool reads() const { return leases_.reading_count() > 0; }
  Activity doing() const { return steps_.doing(); }
  void on_batch(int64_t now_ns, PreparedBatchPtr batch, WorkerEffects& fx) {
    steps_.on_batch(now_ns, std::move(batch), fx);
  }
  void on_shard_end(int64_t now_ns, const ShardEnd& end, WorkerEffects& fx) {
    steps_.on_shard_end(now_ns, end, fx);
  }
  void on_read_failed(int64_t now_ns, const ReadFailure& failure, WorkerEffects& fx) {
    steps_.on_read_failed(now_ns, failure, fx);
  }
  void on_computed(int64_t now_ns, Computed&& computed, WorkerEffects& fx) {
    steps_.on_computed(now_ns, std::move(computed), fx);
  }
  /// Ends the process after an error that concerns no shard, for example if the model cannot be
  /// built. Reports the error to the chief.
  void on_fatal(const Error& error, WorkerEffects& fx) { session_.on_fatal(error, fx); }
  /// Answers `other_job` if this worker cannot continue under that job: ends with 78.
  void on_other_job(const std::string& what, WorkerEffects& fx) { session_.on_other_job(what, fx); }
  /// Handles a stop signal. A local worker reports it to the chief and continues until the chief
  /// ends it. If no chief has welcomed it yet, it ends with 128 + signal. Any other worker reports
  /// the signal, returns all its leases, and ends.
  void leave(int64_t now_ns, int signal, WorkerEffects& fx);
  void on_tick(int64_t now_ns, WorkerEffects& fx);
  /// Time at which on_tick() has work to do next.
  int64_t next_deadline_ns() const;

  void set_stats(const ProcessStats& stats) { session_.set_stats(stats); }
  const wire::Welcome& welcome() const { return session_.welcome(); }
  /// Run of the chief that welcomed this worker; 0: none yet.
  uint64_t run() const { return session_.run(); }
  /// The newest known view; {0, 0}: none yet.
  ViewId view() const { return session_.placements() ? session_.placements()->view.id : ViewId{}; }
  const std::vector<TableSpec>& tables() const { return steps_.tables(); }
  /// Number of pulls and pushes that have not been answered.
  size_t requests_outstanding() const { return requests_.pending_count(); }

 private:
  void from_chief(int64_t now_ns, wire::Message&& message, WorkerEffects& fx);

  WorkerConfig config_;
  Requests requests_;
  Session session_;
  Leases leases_;
  Steps steps_;
};

}  // namespace downpour::worker
