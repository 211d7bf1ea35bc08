// Lifecycle: the course of the job: its phases, epochs, rounds, evaluations and checkpoints, and
// its end. docs/glossary.md has the terms of the project, such as view, lease and seal.
//
// In a *round*, the chief asks all owners, under one view, how much of one epoch their partitions
// have applied. A *completion round* decides whether the epoch is complete. A *reconciliation* is
// one or more rounds that find out what the partitions hold: after some of them were restored,
// after a restart of the chief, or for a batch that is proposed for quarantine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "chief/core/cluster/moves.h"
#include "chief/core/cluster/ownership.h"
#include "chief/core/run/checkpoints.h"
#include "chief/core/run/ending.h"
#include "chief/core/run/history.h"
#include "chief/core/run/phases.h"
#include "chief/core/run/report.h"
#include "chief/core/turn.h"
#include "chief/core/work/clocks.h"
#include "chief/core/work/evaluation.h"
#include "chief/core/work/leasing.h"
#include "chief/core/work/pass.h"
#include "chief/core/work/prediction.h"
#include "chief/core/work/quarantine.h"
#include "chief/core/work/quarantine_policy.h"
#include "chief/core/work/rounds.h"
#include "chief/core/work/step_commits.h"

namespace downpour::chief {

/// Decides what the job does next. It does not decide which ps core owns a partition: ChiefCore
/// does that with Recovery and Moves. A change of owners begins with interrupt(), and ends with
/// on_view_published() or continue_phase().
class Lifecycle {
 public:
  Lifecycle(const ChiefConfig& config, Membership& members, const Ownership& ownership,
            const Moves& moves, Report& report);

  const Phases& phases() const { return phases_; }
  const History& history() const { return history_; }
  const Pass& pass() const { return pass_; }
  uint64_t staleness_floor() const { return clocks_.floor(); }
  /// Returns true if, after the loss of a ps, all partitions must be restored from the newest
  /// checkpoint, not only the lost ones.
  bool all_return() const { return begun_ && step_commits_.enabled(); }
  Checkpoints& checkpoints() { return checkpoints_; }
  /// Returns true once the first view has been published, that is, once work has begun.
  bool begun() const { return begun_; }
  bool ending() const { return phases_.ending(); }
  bool finished() const { return phases_.finished(); }
  bool stop_requested() const { return ending_.stop_requested(); }
  bool stop_overdue(const Turn& turn) const { return ending_.stop_overdue(turn); }

  // ---- start and placement

  /// Starts the job. Finishes it at once if there is nothing to do.
  void start(Turn& turn);
  /// Enters Phase::kAdopting, because the chief now assigns every partition to a ps core.
  /// `claimed`: some cores hold partitions that they received from an earlier chief, so workers may
  /// still hold leases of that chief.
  void begin_placing(const Turn& turn, bool claimed);
  /// Returns an Adopt request without partitions. It has the fields that are the same for every
  /// core: sealed epochs, quarantine markers and the hash of the plan.
  wire::Adopt adopt_request() const;
  /// Returns true if partitions may be moved to another core: shards are leased, no stop was
  /// requested, every partition has an owner, no checkpoint is due or being written, and no Commit
  /// is unanswered. A change of owners would void that checkpoint.
  bool may_move(const Turn& turn) const;

  // ---- changes of owners

  /// Voids the running round, and abandons the checkpoint whose images are being written, because
  /// ownership has changed or is about to change.
  void interrupt(Turn& turn, const std::string& why);
  /// Begins the work under the first view, or continues it under a new view. `rolled_back`: some
  /// partition was restored or began empty since the previous view. If work had begun before, a
  /// reconciliation then comes first.
  void on_view_published(Turn& turn, bool rolled_back);
  /// Continues a phase that waited for owners: begins its round or its checkpoint again. Requires
  /// that every partition has an owner and that none was rolled back.
  void continue_phase(Turn& turn);
  /// Returns true if only the lost partitions must be restored from `older`, the checkpoint that
  /// replaces the damaged newest one. In synchronous training all partitions return together. In
  /// other modes this requires that no epoch was sealed between the two checkpoints. When an epoch
  /// is sealed, a ps drops its watermarks (how many batches of each shard a partition has applied).
  /// Training from `older` repeats the later epochs, and needs their watermarks at every partition.
  bool restores_some_from(const ResumeState& older) const {
    return begun_ && !step_commits_.enabled() && older.sealed_epochs == history_.sealed();
  }
  /// Returns to the epochs that an older checkpoint holds. The caller restores every partition from
  /// it.
  void go_back_to(Turn& turn, ResumeState&& older);
  /// Waits for ps again, before work has begun.
  void wait_for_ps(const Turn& turn) { phases_.enter(turn, Phase::kGathering); }

  // ---- messages. Before the first view there are no leases, so they have no effect.

  void on_lease_request(Turn& turn, Member& member, const wire::LeaseRequest& request,
                        RequestId id);
  /// `view`: the newest one that the worker knew.
  void on_shard_progress(Turn& turn, Member& member, ViewId view,
                         const wire::ShardProgress& progress);
  void on_shard_failed(Turn& turn, Member& member, const wire::ShardFailed& failed);
  void on_eval_report(Turn& turn, Member& member, wire::EvalReport&& report);
  void on_predict_report(Turn& turn, Member& member, wire::PredictReport&& report, Bytes&& values);
  void on_clock(const Turn& turn, const Member& member, const wire::Clock& clock);
  void on_status(Turn& turn, Member& member, wire::StatusReply&& reply);
  /// `view`: the view under which the core has staged the parts.
  void on_staged(const Member& member, ViewId view, wire::Staged&& staged);
  /// `squares`: the norms, if the core has only measured the step.
  void on_committed(Turn& turn, const Member& member, ViewId view, const wire::Committed& committed,
                    const Bytes& squares);
  void on_saved(Turn& turn, const Member& member, wire::Saved&& saved);
  void on_published(Turn& turn, ViewId checkpoint, const Result<void>& result);
  /// Ends all leases of a member that is silent, replaced or gone. `died`: its death counts as a
  /// failed attempt at a shard that it held.
  void take_back_leases(Turn& turn, Member& member, bool died);
  /// Adapts the pass to the number of live input processes (processes that read for workers).
  void on_inputs_changed() { pass_.share_stream(); }

  // ---- time

  /// Updates Pass::progress(). Must be called first in each tick.
  void note_steps() { pass_.note_steps(step_base()); }
  void check_idle_leases(Turn& turn);
  /// Publishes the floor of bounded staleness to all workers if it has risen, because of a report
  /// or because a lease has ended. Call it at the end of every event, after clocks and leases have
  /// changed.
  void raise_floor(Turn& turn);
  /// Returns true if some ps has not answered a Commit within the time limit, and forgets the
  /// Commit. The caller must then restore all partitions from the newest checkpoint.
  bool step_overdue(const Turn& turn) {
    return step_commits_.drop_overdue(turn, checkpoints_.under_way());
  }
  /// Commits the step that all ps have staged, if there is one. Call it at the end of every event,
  /// after leases and reports have changed.
  void commit_step(Turn& turn);
  /// Sends the floor to one worker. Called for each heartbeat and each grant, because a message may
  /// have been lost, and because a worker that hears nothing discards what it has pulled.
  void repeat_floor(Turn& turn, const Member& member);
  void check_rounds(Turn& turn);
  /// Begins a checkpoint that is due, and fails one that takes too long.
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
  /// Finishes the job if no live member is left that could answer the Stop, and none is expected.
  void finish_if_alone(Turn& turn);
  /// Returns true if a process that joins now gets the status of the job, which has succeeded.
  bool takes_late() const { return phases_.stopping() && succeeded_in_cluster(); }
  /// Ends a member that has joined after the job.
  void end_late(Turn& turn, const Member& member) const;

 private:
  /// The running reconciliation. It asks about one epoch per round, up to the current epoch.
  struct Reconciliation {
    uint32_t epoch = 0;             // the epoch that the partitions are asked about
    bool markers_only = false;      // see reconcile_markers()
    Phase then = Phase::kTraining;  // the phase that follows
  };

  void handle(Turn& turn, WorkEvent&& event);
  void handle(Turn& turn, const SaveResult& result);
  void begin_stop(Turn& turn, const std::string& reason);
  void end_unsaved(Turn& turn);
  void finish(Turn& turn);
  bool succeeded_in_cluster() const { return config_.late_wait_ns > 0 && ending_.code() == 0; }
  bool expects_late() const;
  JobSummary summary(const Turn& turn) const;
  bool members_hold_state() const;
  /// Returns true if every partition has a live owner and no move is in progress.
  bool settled() const { return ownership_.whole() && !moves_.under_way(); }
  StepBase step_base() const;

  void send_commit(Turn& turn, const wire::Commit& commit);
  void want_save(Turn& turn);
  bool save_due(const Turn& turn) const;
  void save_failed(Turn& turn, const std::string& why);
  void after_save(Turn& turn, const std::string& error);

  // Passes, rounds and reconciliations: lifecycle_epochs.cc
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
  void limit_steps(Turn& turn);
  void begin_round(Turn& turn);
  void void_round(Turn& turn, const std::string& why);
  void end_round(Turn& turn);
  void complete_epoch(Turn& turn, const RoundOutcome& outcome);
  void reconcile(Turn& turn);
  /// Begins a reconciliation that only decides which proposed batches are quarantined, that is,
  /// left out of the training. Each partition stores a marker for such a batch. Leases stay valid,
  /// and no new ones are granted until the reconciliation ends.
  void reconcile_markers(Turn& turn);
  void reconcile_next(Turn& turn);
  void end_reconcile(Turn& turn, const RoundOutcome& outcome);
  bool roll_back_to(Turn& turn, uint32_t epoch);
  bool take_lacking(Turn& turn, const RoundOutcome& outcome);

  const ChiefConfig& config_;
  Membership& members_;
  const Ownership& ownership_;
  const Moves& moves_;
  Report& report_;
  Phases phases_;
  Ending ending_;
  History history_;
  Pass pass_;
  Quarantine quarantine_;
  QuarantinePolicy policy_;
  EvaluationRun evaluation_;
  PredictionRun prediction_;
  Leasing leasing_;
  Clocks clocks_;
  StepCommits step_commits_;
  Rounds rounds_;
  Checkpoints checkpoints_;
  Reconciliation reconciliation_;
  bool begun_ = false;
};

}  // namespace downpour::chief
