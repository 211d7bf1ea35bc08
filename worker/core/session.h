// Session: connects a worker (or input process) with the chief: handshake, newest view, heartbeats
// and goodbye.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "worker/core/events.h"
#include "worker/core/pull_policy.h"
#include "worker/core/requests.h"
#include "worker/core/worker_config.h"

namespace downpour::worker {

class Session {
 public:
  /// Keeps the references.
  Session(const WorkerConfig& config, Requests& requests, const PullPolicy& policy)
      : config_(config),
        requests_(requests),
        policy_(policy),
        chief_silence_ns_(config.chief_silence_ns) {}

  /// Returns true after the core has asked its process to end. The core then ignores every event.
  bool stopping() const { return stopping_; }
  bool welcomed() const { return welcomed_; }
  /// Returns true after configure(): the worker may request leases and pull.
  bool configured() const { return configured_; }
  const wire::Welcome& welcome() const { return welcome_; }
  /// Run of the chief that welcomed this worker; 0: none yet.
  uint64_t run() const { return run_; }
  /// The newest view; null: none yet.
  const std::shared_ptr<const Placements>& placements() const { return placements_; }
  /// Returns the address of an owner in the newest view.
  Incarnation owner(uint32_t index) const { return address_of(placements_->view.owners[index]); }

  void start(int64_t now_ns, WorkerEffects& fx);
  /// Sets the time limit for a silent chief. Requires a Welcome, and may be called once.
  void configure(int64_t chief_silence_ns);
  void set_stats(const ProcessStats& stats) { stats_ = stats; }
  /// Adds metrics of trained batches to the next heartbeat.
  void add_metrics(const std::vector<OutputMetrics>& metrics);
  /// Counts records that are trained and acknowledged.
  void count_records(uint64_t records) { records_ += records; }

  void send(Incarnation to, wire::Body body, RequestId request, WorkerEffects& fx, Bytes keys = {},
            Bytes values = {});
  /// Sends a message to the chief under a new request id.
  void report(wire::Body body, WorkerEffects& fx, Bytes values = {}) {
    send(kChief, std::move(body), requests_.next(), fx, {}, std::move(values));
  }

  /// Returns true if the message names this run or no run. Before the Welcome, every message
  /// passes.
  bool is_of_this_run(const wire::Envelope& envelope) const;
  /// Returns whether a message of the chief may be handled. A chief of an older term has been
  /// replaced.
  bool hear_chief(int64_t now_ns, const wire::Envelope& envelope);
  /// Handles the first Welcome, or a later one, for example of a restarted chief. One with other
  /// data ends the process.
  void on_welcome(int64_t now_ns, uint64_t run, wire::Welcome&& welcome, WorkerEffects& fx);
  /// Introduces this worker again, because the chief does not know its connection (any more).
  void on_reject(int64_t now_ns, WorkerEffects& fx);
  void on_refused(const wire::Refused& refused, WorkerEffects& fx);
  /// Returns whether `view` is now the newest view. A repeated or late view changes nothing; one of
  /// another plan ends the process.
  bool accept_view(wire::View&& view, WorkerEffects& fx);
  void on_stop(int64_t now_ns, RequestId request, const wire::Stop& stop, WorkerEffects& fx);
  void on_fatal(const Error& error, WorkerEffects& fx);
  void on_unsuitable(const Error& error, WorkerEffects& fx);
  void on_other_job(const std::string& what, WorkerEffects& fx);
  /// Reports a stop signal. Returns true if this worker leaves by itself: the caller must return
  /// its leases, and then call leave().
  bool on_signal(int signal, WorkerEffects& fx);
  /// Says goodbye and ends the process.
  void leave(int64_t now_ns, WorkerEffects& fx);
  /// Sends a due Hello or heartbeat, and ends the process if the chief is silent for too long.
  /// Returns false if leases and steps need no tick: the worker is not welcomed yet, or it ends.
  bool on_tick(int64_t now_ns, WorkerEffects& fx);
  /// Time at which on_tick() has work to do next.
  int64_t next_deadline_ns() const;

 private:
  void hello(int64_t now_ns, WorkerEffects& fx);
  void heartbeat(int64_t now_ns, WorkerEffects& fx);
  void goodbye(int64_t now_ns, WorkerEffects& fx);
  void report_signal(WorkerEffects& fx);
  void exit(int32_t code, std::string reason, WorkerEffects& fx);

  const WorkerConfig& config_;
  Requests& requests_;
  const PullPolicy& policy_;
  wire::Welcome welcome_;
  bool welcomed_ = false;
  bool configured_ = false;
  bool stopping_ = false;
  int leave_signal_ = 0;  // reported with every heartbeat; 0: none received
  uint64_t run_ = 0;
  uint32_t term_ = 0;  // newest term of a chief's messages
  std::shared_ptr<const Placements> placements_;
  ProcessStats stats_;

  int64_t started_ns_ = 0;
  int64_t hello_at_ns_ = 0;
  int64_t chief_heard_ns_ = 0;
  int64_t chief_silence_ns_;
  int64_t heartbeat_at_ns_ = 0;

  uint64_t records_ = 0;               // trained and acknowledged since the start
  std::vector<OutputMetrics> recent_;  // since the last heartbeat
};

}  // namespace downpour::worker
