// ChiefCore: the chief's decisions as a deterministic state machine. It receives events and returns
// effects. It uses no socket, file, thread or clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/admission.h"
#include "chief/core/checkpoints.h"
#include "chief/core/evaluation.h"
#include "chief/core/events.h"
#include "chief/core/history.h"
#include "chief/core/leases.h"
#include "chief/core/moves.h"
#include "chief/core/ownership.h"
#include "chief/core/prediction.h"
#include "chief/core/ps_cores.h"
#include "chief/core/quarantine.h"
#include "chief/core/recovery.h"
#include "chief/core/report.h"
#include "chief/core/rounds.h"
#include "chief/core/stragglers.h"
#include "chief/core/turn.h"
#include "shared/wire/peer_identity.h"

namespace downpour::chief {

/// Runs one job from the first Hello to the end. `now_ns` never decreases. on_start() comes first,
/// and on_tick() is called often (every 50 ms), because it checks all time limits. Events after
/// Finish are ignored.
class ChiefCore {
 public:
  explicit ChiefCore(ChiefConfig config);
  ChiefCore(const ChiefCore&) = delete;
  ChiefCore& operator=(const ChiefCore&) = delete;

  /// Starts the job. Finishes at once if there is nothing to do (`already_finished`), so call it
  /// before starting processes.
  void on_start(int64_t now_ns, Effects& effects);
  /// Handles a message from a control connection, and the identity that the connection proves. No
  /// message can crash the core, and a sender acts only in the role of its key.
  void on_message(int64_t now_ns, PeerKey peer, wire::Message&& message, Effects& effects,
                  const wire::PeerIdentity& identity = {});
  /// Checks time limits, and begins whatever is due.
  void on_tick(int64_t now_ns, Effects& effects);
  /// Handles the result of PublishManifest.
  void on_published(int64_t now_ns, ViewId checkpoint, Result<void> result, Effects& effects);
  /// Handles the result of FindOlder.
  void on_older(int64_t now_ns, Result<ResumeState> older, Effects& effects);
  /// Records that this connection is broken, because a message could not be sent. The peer may
  /// return on another connection.
  void on_peer_gone(int64_t now_ns, PeerKey peer, Effects& effects);
  /// Handles SIGINT (2) or SIGTERM (15): stops leasing, saves, and ends the job with 128 + signal.
  /// Has no effect if a stop was requested before, by this call or by a member, or if the job is
  /// ending.
  void request_stop(int64_t now_ns, int signal, Effects& effects);
  /// Fails the job with `error`, because the shell cannot continue (for example, a local ps did not
  /// start).
  void on_fatal(int64_t now_ns, Error error, Effects& effects);
  /// Records that a process has ended, as its launcher reports, so that the core need not wait for
  /// its silence. Stops the job if a stop signal ended the process.
  void on_process_ended(int64_t now_ns, const EndedProcess& ended, Effects& effects);
  /// Ends this chief, because a newer one has taken a term of this run. The ps and workers keep
  /// running.
  void on_newer_term(int64_t now_ns, uint32_t term, Effects& effects);

  Phase phase() const { return phase_; }
  bool finished() const { return phase_ == Phase::kFinished; }
  /// Returns a number that grows whenever the job makes new progress: more batches that all
  /// partitions have applied, or another shard of an evaluation or a prediction. Batches that are
  /// trained again after the loss of a ps do not count.
  uint64_t progress() const { return steps_max_ + pass_shards_ended_; }
  /// Returns the number of shards of a training pass; for an open stream, the maximum. For
  /// --dry-run and messages.
  uint32_t train_shards() const { return train_shards_.count(); }

 private:
  bool ending() const { return (phase_ == Phase::kStopping || phase_ == Phase::kFinished); }
  bool gathering() const { return phase_ == Phase::kGathering; }
  const RestorePoint& restore_point() { return checkpoints_.newest(); }

  // messages
  void handle(Turn& turn, Member& member, wire::Message&& message);
  bool handle_of_worker(Turn& turn, Member& member, wire::Message& message);
  bool handle_of_ps(Turn& turn, Member& member, wire::Message& message);
  void on_heartbeat(Turn& turn, Member& member, wire::Heartbeat&& heartbeat);
  void on_goodbye(Turn& turn, Member& member, wire::Goodbye&& goodbye);
  void on_leave(Turn& turn, Member& member, const wire::Leave& leave);

  // members
  void on_hello(Turn& turn, PeerKey peer, const wire::Hello& hello, const wire::Envelope& envelope,
                const wire::PeerIdentity& identity);
  Result<Member*> admit(Turn& turn, PeerKey peer, wire::Hello hello,
                        const wire::PeerIdentity& identity);
  void on_back(Turn& turn, Member& member);
  void on_silent(Turn& turn, Member& member);
  void on_inputs_changed(Turn& turn);
  void replace(Turn& turn, Member& member);
  void check_silence(Turn& turn);
  void check_workers(Turn& turn);

  // owners
  void place(Turn& turn);
  void publish_view(Turn& turn);
  void on_adopted(Turn& turn, Member& member, const wire::Adopted& adopted);
  void on_ps_lost(Turn& turn, Member& member, const std::string& why);
  void on_ps_returned(Turn& turn, Member& member);
  void restore(Turn& turn);
  void check_ps(Turn& turn);
  void check_moves(Turn& turn);
  void cancel_move(Turn& turn, const std::string& why);

  // chief_core_phases.cc: the start, time limits, the end
  void begin_job(Turn& turn);
  void begin_placing(Turn& turn, bool claimed);
  bool restores_some_from(const ResumeState& older) const {
    return begun_ && older.sealed_epochs == history_.sealed();
  }
  void go_back_to(Turn& turn, ResumeState&& older);
  void wait_for_ps(Turn& turn) { enter(turn, Phase::kGathering); }
  void check_idle_leases(Turn& turn);
  void check_rounds(Turn& turn);
  void check_limits(Turn& turn);
  void fail(Turn& turn, Error error);
  void leave_job(Turn& turn, Error error);
  void begin_stop(Turn& turn, int32_t code, std::string reason);
  void finish(Turn& turn);
  void finish_if_alone(Turn& turn);
  void supersede(Turn& turn, uint32_t term);

  // chief_core_summary.cc
  void show_progress(Turn& turn);
  JobSummary summary(const Turn& turn) const;

  // chief_core_reconcile.cc: what a change of owners means for the job
  void on_view_published(Turn& turn, bool rolled_back);
  void interrupt(Turn& turn, const std::string& why);
  void continue_phase(Turn& turn);
  void reconcile(Turn& turn);
  void reconcile_next(Turn& turn);
  void end_reconcile(Turn& turn, const RoundOutcome& outcome);
  void roll_back_to(Turn& turn, uint32_t epoch);
  void take_lacking(Turn& turn, const RoundOutcome& outcome);

  bool may_move(const Turn& turn) const;
  wire::Adopt adopt_request() const;
  /// Returns true if every partition has a live owner and no move is in progress.
  bool settled() const { return ownership_.whole() && !moves_.under_way(); }

  // chief_core_stop.cc: stop signals
  void stop(Turn& turn, int signal, const std::string& receiver);
  void end_unsaved(Turn& turn);
  bool members_hold_state() const;
  bool stop_overdue(const Turn& turn) const {
    return stop_signal_ != 0 && turn.now_ns() - stop_ns_ > config_.stop_save_ns;
  }

  // chief_core_work.cc: epochs, rounds, evaluation, prediction
  void begin_work(Turn& turn);
  void begin_epoch(Turn& turn, bool reconcile);
  void open_epoch(Turn& turn);
  void end_epoch(Turn& turn);
  void next_epoch(Turn& turn);
  void begin_round(Turn& turn);
  void void_round(Turn& turn, const std::string& why);
  void on_status(Turn& turn, Member& member, wire::StatusReply&& reply);
  void end_round(Turn& turn);
  void complete_epoch(Turn& turn, const RoundOutcome& outcome);
  std::vector<uint64_t> unread_bytes() const;
  Result<wire::ShardCounts> settle(const RoundOutcome& outcome) const;
  void begin_evaluation(Turn& turn);
  void begin_prediction(Turn& turn);
  void share_stream();
  void open_pass(Turn& turn, const wire::Lease& pattern);
  void add_shards(uint32_t count);
  void add_shards_of_earlier_chief(const wire::Lease& lease);
  void extend_open_pass(Turn& turn);
  void note_end(Turn& turn, uint32_t shard, const wire::ShardCounts& counts);
  EpochExtent extent_of(uint32_t epoch) const;
  void on_eval_report(Turn& turn, Member& member, wire::EvalReport&& report);
  void on_predict_report(Turn& turn, Member& member, wire::PredictReport&& report, Bytes&& values);
  void check_pass_end(Turn& turn);
  void end_evaluation(Turn& turn);
  bool leasing() const {
    return phase_ == Phase::kTraining || phase_ == Phase::kEvaluating ||
           phase_ == Phase::kPredicting;
  }
  /// Returns true while leases are valid. During a reconciliation none is granted.
  bool working() const { return leasing() || phase_ == Phase::kReconciling; }
  std::string range_text(uint32_t shard) const;
  std::vector<plan::ShardRange> ranges_of(uint32_t shard) const;
  uint64_t bytes_of(uint32_t shard) const { return shard_bytes_[shard]; }
  Result<void> check_stream(uint32_t shard) const;
  uint64_t skipped_so_far() const;

  // chief_core_steps.cc: train.steps, an end inside an epoch
  uint64_t steps_done() const;
  bool may_begin_shards() const;
  bool partial_epoch_is_read(const Turn& turn) const;

  // chief_core_leases.cc: granting and revoking leases
  void on_lease_request(Turn& turn, Member& member, const wire::LeaseRequest& request,
                        RequestId id);
  void grant_leases(Turn& turn, const Member& member, uint32_t wanted, wire::LeaseGrant& grant);
  void log_lease(Turn& turn, const Member& member, const wire::Lease& lease, bool backup);
  PassView pass_view(const Turn& turn) const;
  void advance(Turn& turn, const Member& member, uint32_t shard, uint64_t bytes_done);
  void note_idle(Turn& turn, Incarnation worker);
  void on_shard_progress(Turn& turn, Member& member, const wire::ShardProgress& progress);
  void on_shard_failed(Turn& turn, Member& member, const wire::ShardFailed& failed);
  void take_back_leases(Turn& turn, Member& member, bool died);
  uint32_t fatal_batch(uint32_t shard) const;
  void end_shard(Turn& turn, const Member& member, uint32_t shard, const wire::ShardCounts& counts);
  void count_failure(Turn& turn, const Member& member, const Error& error, uint32_t shard,
                     uint32_t batch, wire::FailureKind kind = wire::FailureKind::kOther);
  void revoke(Turn& turn, uint32_t shard, Incarnation worker);
  void revoke_all(Turn& turn, uint32_t shard);

  // chief_core_quarantine.cc: quarantined batches
  bool may_quarantine(wire::FailureKind kind) const;
  bool single_step() const;
  void quarantine_batch(Turn& turn, uint32_t shard, uint32_t batch, const Error& error);
  void reconcile_markers(Turn& turn);
  void decide_markers(Turn& turn, const RoundOutcome& outcome);
  std::string train_range_text(ShardId shard) const;

  // chief_core_save.cc: checkpoints, in parallel to the phases of the job
  void want_save(Turn& turn);
  void check_save(Turn& turn);
  bool save_due(const Turn& turn) const;
  void handle(Turn& turn, const SaveResult& result);
  void save_failed(Turn& turn, const std::string& why);
  void after_save(Turn& turn, const std::string& error);

  ChiefConfig config_;
  plan::ShardMap train_shards_;
  std::vector<plan::ShardRange> eval_ranges_;
  bool eval_from_files_ = false;  // eval_ranges_ come from eval_files, not from train_files

  Phase phase_ = Phase::kGathering;
  int64_t phase_ns_ = 0;  // when the phase began
  void enter(Turn& turn, Phase phase) {
    phase_ = phase;
    phase_ns_ = turn.now_ns();
  }

  Membership members_;
  Report report_;
  Ownership ownership_;
  Moves moves_;
  TurnState turn_state_;
  Admission admission_;
  Recovery recovery_;
  bool begun_ = false;    // work has begun under the first view
  bool claimed_ = false;  // partitions were claimed, so leases of an earlier chief may exist

  History history_;
  LeaseTable table_;
  std::vector<uint64_t> shard_bytes_;           // by shard of the pass
  WorkerPaces paces_;                           // rates in this pass
  uint64_t bytes_ended_ = 0, bytes_total_ = 0;  // bytes of the pass
  bool length_unknown_ = false;                 // open stream whose end no worker has reported yet
  uint32_t reconcile_epoch_ = 0;
  bool markers_only_ = false;  // the reconciliation is for markers only, and leases stay valid
  Quarantine quarantine_;
  std::vector<QuarantinedBatch> quarantined_;
  Phase reconciled_phase_ = Phase::kTraining;  // phase before the reconciliation
  uint64_t steps_before_ = 0;  // batches acknowledged in training passes before this one
  uint64_t steps() const;
  // Batches of the current epoch that all partitions had applied at the last round, and the lease
  // table's count at that time.
  uint64_t epoch_steps_ = 0, epoch_acked_ = 0;
  uint64_t steps_max_ = 0;              // maximum of steps_done()
  uint64_t pass_shards_ended_ = 0;      // ended shards of evaluations and predictions
  uint32_t shard_batches_longest_ = 0;  // batches of the longest ended training shard; 0: none
  Rounds rounds_;
  EvaluationRun evaluation_;
  PredictionRun prediction_;

  Checkpoints checkpoints_;

  int stop_signal_ = 0;
  int64_t stop_ns_ = 0;
  int32_t code_ = 0;
  std::optional<Error> error_;

  uint32_t attempts_repeated_ = 0, backups_ = 0;
};

/// Returns the error of a stop by signal.
Error interrupted(int signal, bool saved);

}  // namespace downpour::chief
