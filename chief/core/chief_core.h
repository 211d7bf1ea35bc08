// ChiefCore: the chief's decisions as a deterministic state machine. It receives events and returns
// effects. It uses no socket, file, thread or clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "chief/core/admission.h"
#include "chief/core/checkpoints.h"
#include "chief/core/ending.h"
#include "chief/core/evaluation.h"
#include "chief/core/events.h"
#include "chief/core/history.h"
#include "chief/core/leasing.h"
#include "chief/core/moves.h"
#include "chief/core/ownership.h"
#include "chief/core/pass.h"
#include "chief/core/phases.h"
#include "chief/core/prediction.h"
#include "chief/core/quarantine.h"
#include "chief/core/quarantine_policy.h"
#include "chief/core/recovery.h"
#include "chief/core/report.h"
#include "chief/core/rounds.h"
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

  Phase phase() const { return phases_.current(); }
  bool finished() const { return phases_.finished(); }
  /// Returns a number that grows whenever the job makes new progress: more batches that all
  /// partitions have applied, or another shard of an evaluation or a prediction. Batches that are
  /// trained again after the loss of a ps do not count.
  uint64_t progress() const { return pass_.progress(); }
  /// Returns the number of shards of a training pass; for an open stream, the maximum. For
  /// --dry-run and messages.
  uint32_t train_shards() const { return pass_.train_shards(); }

 private:
  bool ending() const { return phases_.ending(); }
  bool gathering() const { return phases_.gathering(); }
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

  // chief_core_job.cc
  // ---- start and placement

  /// Starts the job. Finishes it at once if there is nothing to do.
  void begin_job(Turn& turn);
  /// Records that partitions are placed. `claimed`: partitions and leases of an earlier chief
  /// exist.
  void begin_placing(const Turn& turn, bool claimed);
  /// Returns an Adopt without partitions: what every core must know that adopts some.
  wire::Adopt adopt_request() const;
  /// Returns true if a move may begin: shards are leased, every partition has an owner, and no
  /// checkpoint would lose its images by it.
  bool may_move(const Turn& turn) const;

  // ---- changes of owners

  /// Voids the running round and checkpoint, because ownership has changed or is about to change.
  void interrupt(Turn& turn, const std::string& why);
  /// Begins or continues the work under a new view. `rolled_back`: some partition was restored or
  /// began empty since the view before.
  void on_view_published(Turn& turn, bool rolled_back);
  /// Continues the phase that waited for owners, when every partition has one and none was rolled
  /// back.
  void continue_phase(Turn& turn);
  /// Returns true if lost partitions can be restored from an older checkpoint alone, because no
  /// epoch was sealed between the two. Then all other partitions still have the watermarks of the
  /// unsealed epochs.
  bool restores_some_from(const ResumeState& older) const {
    return begun_ && older.sealed_epochs == history_.sealed();
  }
  /// Returns to the epochs of an older checkpoint, from which every partition is restored.
  void go_back_to(Turn& turn, ResumeState&& older);
  /// Waits for ps again, before work has begun.
  void wait_for_ps(const Turn& turn) { phases_.enter(turn, Phase::kGathering); }

  // ---- messages; the lease table exists once partitions are placed

  void on_lease_request(Turn& turn, Member& member, const wire::LeaseRequest& request,
                        RequestId id);
  void on_shard_progress(Turn& turn, Member& member, const wire::ShardProgress& progress);
  void on_shard_failed(Turn& turn, Member& member, const wire::ShardFailed& failed);
  void on_eval_report(Turn& turn, Member& member, wire::EvalReport&& report);
  void on_predict_report(Turn& turn, Member& member, wire::PredictReport&& report, Bytes&& values);
  void on_status(Turn& turn, Member& member, wire::StatusReply&& reply);
  /// Ends all leases of a member that is silent, replaced or gone. `died`: it counts as a failed
  /// attempt.
  void take_back_leases(Turn& turn, Member& member, bool died);
  // ---- time

  void check_idle_leases(Turn& turn);
  void check_rounds(Turn& turn);
  /// Begins a checkpoint that is due, and abandons one that takes too long.
  void check_save(Turn& turn);
  void check_limits(Turn& turn);
  void show_progress(Turn& turn);

  // ---- the end

  /// Stops the job for a signal. A signal to a process group reaches every process, so each of them
  /// reports it. Only the first report has an effect. A job that is ending keeps its exit status.
  void stop(Turn& turn, int signal, const std::string& receiver);
  /// Fails the job, if it is not ending.
  void fail(Turn& turn, Error error);
  /// Fails this chief without a message to the members, because another chief may continue with
  /// them.
  void leave_job(Turn& turn, Error error);
  /// Ends this chief without a message to the members, because they belong to the newer chief.
  void supersede(Turn& turn, uint32_t term);
  /// Finishes if no live member is left to answer the Stop.
  void finish_if_alone(Turn& turn);

  /// The reconciliation that is running.
  struct Reconciliation {
    uint32_t epoch = 0;             // the epoch that the partitions are asked about
    bool markers_only = false;      // it is for markers only, and leases stay valid
    Phase then = Phase::kTraining;  // the phase that follows
  };

  void handle(Turn& turn, WorkEvent&& event);
  void handle(Turn& turn, const SaveResult& result);
  void begin_stop(Turn& turn, const std::string& reason);
  void end_unsaved(Turn& turn);
  void finish(Turn& turn);
  JobSummary summary(const Turn& turn) const;
  bool members_hold_state() const;
  /// Returns true if every partition has a live owner and no move is in progress.
  bool settled() const { return ownership_.whole() && !moves_.under_way(); }
  StepBase step_base() const;

  void want_save(Turn& turn);
  bool save_due(const Turn& turn) const;
  void save_failed(Turn& turn, const std::string& why);
  void after_save(Turn& turn, const std::string& error);

  // chief_core_epochs.cc
  void begin_work(Turn& turn);
  void begin_epoch(Turn& turn, bool reconcile);
  bool open_epoch(Turn& turn);
  void end_epoch(Turn& turn);
  void next_epoch(Turn& turn);
  void begin_evaluation(Turn& turn);
  void end_evaluation(Turn& turn);
  void begin_prediction(Turn& turn);
  bool open_pass(Turn& turn, const wire::Lease& pattern);
  void check_pass_end(Turn& turn);
  void begin_round(Turn& turn);
  void void_round(Turn& turn, const std::string& why);
  void end_round(Turn& turn);
  void complete_epoch(Turn& turn, const RoundOutcome& outcome);
  void reconcile(Turn& turn);
  void reconcile_markers(Turn& turn);
  void reconcile_next(Turn& turn);
  void end_reconcile(Turn& turn, const RoundOutcome& outcome);
  bool roll_back_to(Turn& turn, uint32_t epoch);
  bool take_lacking(Turn& turn, const RoundOutcome& outcome);

  ChiefConfig config_;
  Membership members_;
  Report report_;
  Ownership ownership_;
  Moves moves_;
  TurnState turn_state_;
  Admission admission_;
  Recovery recovery_;
  Phases phases_;
  Ending ending_;
  History history_;
  Pass pass_;
  Quarantine quarantine_;
  QuarantinePolicy policy_;
  EvaluationRun evaluation_;
  PredictionRun prediction_;
  Leasing leasing_;
  Rounds rounds_;
  Checkpoints checkpoints_;
  Reconciliation reconciliation_;
  bool begun_ = false;
};

}  // namespace downpour::chief
