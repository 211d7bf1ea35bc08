#include "chief/core/run/lifecycle.h"

#include <utility>

#include "chief/core/run/selection.h"
#include "shared/base/defence.h"

namespace downpour::chief {

Lifecycle::Lifecycle(const ChiefConfig& config, Membership& members, const Ownership& ownership,
                     const Moves& moves, Report& report)
    : config_(config),
      members_(members),
      ownership_(ownership),
      moves_(moves),
      report_(report),
      ending_(config),
      history_(config),
      pass_(config, members),
      policy_(config, pass_, quarantine_),
      leasing_(config, members, pass_, quarantine_, policy_, evaluation_, prediction_, clocks_,
               step_commits_),
      clocks_(config),
      step_commits_(config),
      rounds_(config),
      checkpoints_(config, members, ownership, history_) {}

// ---- start and placement

void Lifecycle::start(Turn& turn) {
  phases_.start(turn);
  turn.log(turn.event("start")
               .add("run", config_.run)
               .add("term", config_.term)
               .add("plan", config_.plan_hash)
               .add("train_shards", pass_.open_stream() ? 0 : pass_.train_shards())
               .add("sealed_epochs", history_.sealed()));
  // A stop may have come between the last epoch and its evaluation. Then the evaluation follows
  // now.
  if (config_.mode == wire::Purpose::kTrain && history_.trained() && history_.evaluated())
    return begin_stop(turn, "the run is already finished");
  history_.drop_partial();
  checkpoints_.choose_best();
  if (step_commits_.enabled() && pass_.train_shards() < *config_.job.train.replicas) {
    turn.notice(NoticeLevel::kWarning,
                str("the data have ", pass_.train_shards(),
                    pass_.train_shards() == 1 ? " shard" : " shards", ", so only as many of the ",
                    *config_.job.train.replicas,
                    " replicas take part; smaller shards help: data.shard_records"));
  }
  if (step_commits_.enabled() && config_.joining.in_order && pass_.train_shards() > 1 &&
      config_.workers_expected > 1 && config_.job.cluster.input_workers == 0) {
    const bool threads = config_.job.cluster.workers == 0;
    turn.notice(NoticeLevel::kWarning,
                str("the source can only be read from its start, so each worker reads all of it; "
                    "with an input process (",
                    threads ? str("--workers ", config_.workers_expected, " ") : "",
                    "--input-workers 1) it is read once"));
  }
  if (pass_.no_input()) fail(turn, Error{ErrorCode::kNoInput, "the data set has no bytes to read"});
}

void Lifecycle::begin_placing(const Turn& turn, bool claimed) {
  phases_.enter(turn, Phase::kAdopting);
  pass_.expect_earlier_leases(claimed);
  const bool holds_batches = claimed || !checkpoints_.newest().images.empty();
  if (config_.mode == wire::Purpose::kTrain && holds_batches) quarantine_.forget_what_others_know();
}

wire::Adopt Lifecycle::adopt_request() const {
  return {.sealed_epochs = history_.sealed(),
          .markers = quarantine_.markers(),
          .markers_known = quarantine_.known(),
          .plan_hash = ownership_.view().plan_hash};
}

bool Lifecycle::may_move(const Turn& turn) const {
  return phases_.leasing() && !ending_.stop_requested() && ownership_.whole() &&
         !checkpoints_.under_way() && !save_due(turn) && step_commits_.quiet();
}

// ---- changes of owners

void Lifecycle::on_view_published(Turn& turn, bool rolled_back) {
  if (phases_.ending()) return;
  step_commits_.on_view(ownership_.view(), rolled_back || !begun_);
  if (!begun_) {
    begun_ = true;
    return begin_work(turn);
  }
  interrupt(turn, "another view is published");
  if (rolled_back) {
    // A replica continues with an earlier shard, before those that are leased now.
    if (step_commits_.enabled() && pass_.trains()) leasing_.revoke_all(turn);
    reconcile(turn);
  } else {
    continue_phase(turn);
  }
}

void Lifecycle::continue_phase(Turn& turn) {
  if (phases_.in_round()) {
    begin_round(turn);
  } else if (phases_.saving() && !checkpoints_.under_way()) {
    want_save(turn);
  }
}

void Lifecycle::go_back_to(Turn& turn, ResumeState&& older) {
  const uint32_t sealed_epochs = older.sealed_epochs;
  history_.limit_resumed(older.epochs.size());
  const bool train = config_.mode == wire::Purpose::kTrain;
  if (!begun_ && train) {
    history_.replace_results(std::move(older));
    checkpoints_.choose_best();
  }
  history_.unseal(sealed_epochs);
  interrupt(turn, "all partitions return to an older checkpoint");
  if (!begun_) {
    history_.restart_from(sealed_epochs);
    pass_.expect_earlier_leases(false);
  } else if (train) {
    // The older images may hold markers of epochs that were sealed later.
    quarantine_.forget_what_others_know();
  }
}

// ---- leases

StepBase Lifecycle::step_base() const {
  const auto& accounts = history_.accounts();
  return {.steps = history_.steps_accounted(),
          .epoch = history_.epoch(),
          .counted = !accounts.empty() && accounts.back().epoch >= history_.epoch()};
}

void Lifecycle::on_lease_request(Turn& turn, Member& member, const wire::LeaseRequest& request,
                                 RequestId id) {
  repeat_floor(turn, member);  // a worker starts at it
  if (leasing_.repeat_grant(turn, member, id)) return;
  wire::LeaseGrant grant;
  if (phases_.leasing() && !ending_.stop_requested() && !leasing_.is_paused(turn, member)) {
    const bool predicting = phases_.current() == Phase::kPredicting;
    auto granted = leasing_.grant(turn, member, request.wanted, step_base(), predicting, grant);
    if (!granted) fail(turn, std::move(granted).error());
    if (!grant.leases.empty() && phases_.training()) {
      report_.note_training(turn);
      clocks_.start(member.incarnation());
    }
  }
  leasing_.answer(turn, member, id, std::move(grant));
}

void Lifecycle::on_shard_progress(Turn& turn, Member& member, ViewId view,
                                  const wire::ShardProgress& progress) {
  if (phases_.gathering() || phases_.current() == Phase::kAdopting) return;  // no lease table
  if (step_commits_.enabled() && progress.ended && step_commits_.precedes_rollback(view))
    return defended(Defence::kChiefEndedLate);
  handle(turn,
         leasing_.on_progress(turn, member, progress, phases_.working(), ending_.stop_requested()));
}

void Lifecycle::on_shard_failed(Turn& turn, Member& member, const wire::ShardFailed& failed) {
  WorkEvent event = leasing_.on_failed(turn, member, failed, phases_.working());
  if (std::holds_alternative<Error>(event) && members_.several_processes()) {
    turn.notice(NoticeLevel::kWarning,
                str("the next error, which ends the job, comes from ", member.full_name()));
  }
  handle(turn, std::move(event));
}

void Lifecycle::on_eval_report(Turn& turn, Member& member, wire::EvalReport&& report) {
  // Reports also count during a reconciliation: if the epoch proves complete, they are valid.
  if (phases_.working()) handle(turn, leasing_.on_evaluated(turn, member, std::move(report)));
}

void Lifecycle::on_predict_report(Turn& turn, Member& member, wire::PredictReport&& report,
                                  Bytes&& values) {
  if (report.lease.purpose == wire::Purpose::kEval && phases_.working())
    return handle(turn, leasing_.on_grouped(turn, member, report, std::move(values)));
  if (phases_.current() != Phase::kPredicting) return;
  handle(turn, leasing_.on_predicted(turn, member, std::move(report), std::move(values)));
}

void Lifecycle::on_clock(const Turn& turn, const Member& member, const wire::Clock& clock) {
  clocks_.take(turn.now_ns(), member.incarnation(), clock);
}

void Lifecycle::raise_floor(Turn& turn) {
  if (!clocks_.are_bounded() || phases_.ending() || !pass_.trains()) return;
  if (!clocks_.raise(turn.now_ns(), pass_.table())) return;
  for (const Member& member : members_) {
    if (member.is_worker() && member.live())
      turn.send(member, clocks_.floor_for(member.incarnation()));
  }
}

void Lifecycle::repeat_floor(Turn& turn, const Member& member) {
  if (clocks_.are_bounded() && member.is_worker())
    turn.send(member, clocks_.floor_for(member.incarnation()));
}

void Lifecycle::take_back_leases(Turn& turn, Member& member, bool died) {
  clocks_.forget(member.incarnation());
  handle(turn, leasing_.leave(turn, member, died));
  if (!phases_.ending()) leasing_.release_all(turn, member);
}

void Lifecycle::handle(Turn& turn, WorkEvent&& event) {
  if (auto* error = std::get_if<Error>(&event)) return fail(turn, std::move(*error));
  if (std::holds_alternative<PassAdvanced>(event)) return check_pass_end(turn);
  if (std::holds_alternative<MarkersPending>(event)) return reconcile_markers(turn);
}

void Lifecycle::check_idle_leases(Turn& turn) {
  if (!phases_.leasing()) return;
  const bool bounded = clocks_.are_bounded() && pass_.trains();
  // A worker that waits for the floor makes no progress. Only the slowest ones are at fault.
  // The same holds for a replica that waits for its step.
  const bool synchronous = step_commits_.enabled() && pass_.trains();
  leasing_.revoke_idle(turn, /*stalled=*/!bounded && !synchronous);
  if (synchronous) {
    for (const uint32_t shard : pass_.table().neglected(turn.now_ns()))
      leasing_.revoke_all(turn, shard);
    leasing_.end_stalled(turn, step_commits_.stalled(turn, pass_.table()));
  }
  if (!bounded) return;
  for (const Incarnation worker : clocks_.slow(turn.now_ns(), pass_.table()))
    leasing_.revoke_all(turn, worker);
}

// ---- checkpoints. The job continues while one is written. Only the end of the job, a stop, and
// too many unsealed epochs wait for one (Phase::kSaving).

/// Requests a checkpoint, which begins as soon as possible.
void Lifecycle::want_save(Turn& turn) {
  checkpoints_.want();
  check_save(turn);
}

void Lifecycle::check_save(Turn& turn) {
  if (checkpoints_.under_way() && checkpoints_.overdue(turn)) {
    save_failed(turn, "it took too long");
  } else if (save_due(turn)) {
    checkpoints_.begin(turn, pass_.steps(), phases_.saving(),
                       step_commits_.enabled() ? step_commits_.next() : 0);
  }
  if (phases_.saving() && ending_.stop_overdue(turn)) {
    checkpoints_.stop_schedule(turn, pass_.steps());  // so that no other one begins
    save_failed(turn, "it took too long");
  }
}

/// Returns true if a checkpoint is due and may begin. The number of complete epochs must be
/// certain, because the checkpoint seals them.
bool Lifecycle::save_due(const Turn& turn) const {
  return settled() && config_.mode == wire::Purpose::kTrain && phases_.may_save() &&
         !checkpoints_.under_way() && step_commits_.quiet() &&
         checkpoints_.due(turn, pass_.steps());
}

void Lifecycle::on_saved(Turn& turn, const Member& member, wire::Saved&& saved) {
  handle(turn, checkpoints_.on_saved(turn, member, std::move(saved)));
}

void Lifecycle::on_published(Turn& turn, ViewId checkpoint, const Result<void>& result) {
  handle(turn, checkpoints_.on_published(turn, checkpoint, result, ending_.stop_requested()));
}

void Lifecycle::handle(Turn& turn, const SaveResult& result) {
  switch (result.event) {
    case SaveEvent::kNone:
      return;
    case SaveEvent::kPublished:
      quarantine_.forget_below(history_.sealed());
      return after_save(turn, {});
    case SaveEvent::kFailed:
      return save_failed(turn, result.why);
    case SaveEvent::kPartialEpochGrew:
      // A worker that this chief does not know, for example with a lease of an earlier chief, has
      // continued. That shard must end, too.
      return reconcile(turn);
  }
}

void Lifecycle::save_failed(Turn& turn, const std::string& why) {
  after_save(turn, checkpoints_.fail(turn, why));
}

/// Continues whatever waited for the checkpoint, which was published, or failed because of `error`.
void Lifecycle::after_save(Turn& turn, const std::string& error) {
  const bool stopping = ending_.stop_requested();
  if (checkpoints_.wanted()) return check_save(turn);  // the next checkpoint decides
  if (!phases_.saving()) return;
  if (!error.empty() && !stopping && !history_.trained() && checkpoints_.waits_for_best()) {
    checkpoints_.lose_best();
    turn.notice(NoticeLevel::kWarning,
                str("epoch ", history_.epochs_trained(), " has ", best_text(config_.job),
                    ", but its checkpoint failed; eval and predict "
                    "will use the checkpoint of another epoch"));
    return next_epoch(turn);
  }
  if (!error.empty() && !checkpoints_.saved_since_stop()) {
    if (stopping && !ownership_.whole()) {
      turn.notice(NoticeLevel::kWarning,
                  str("there is no final checkpoint, because a ps is lost (", error,
                      "); the same command resumes from the newest checkpoint, if there is one"));
      return end_unsaved(turn);
    }
    return fail(turn, Error{ErrorCode::kIo,
                            str(history_.trained() || stopping
                                    ? "the final checkpoint"
                                    : "several epochs wait for a checkpoint, which",
                                " could not be written: ", error),
                            checkpoints_.folder(),
                            "free space on the disk or repair the folder, then run the job again"});
  }
  const bool last = history_.trained() && history_.sealed() >= history_.complete() &&
                    (!history_.partial() || history_.partial_saved());
  if (last && (history_.evaluated() || !stopping)) return begin_stop(turn, {});
  if (stopping) {
    ending_.interrupt(true);
    return begin_stop(turn, ending_.error()->what);
  }
  next_epoch(turn);
}

// ---- time

void Lifecycle::check_rounds(Turn& turn) {
  if (config_.job.train.steps > 0 && phases_.training()) check_pass_end(turn);
  if (rounds_.due(turn) && phases_.in_round()) begin_round(turn);
  turn.repeat(step_commits_.outbox(), members_);
}

void Lifecycle::check_limits(Turn& turn) {
  switch (phases_.current()) {
    case Phase::kGathering:
    case Phase::kAdopting:
    case Phase::kReconciling:
      if (ending_.stop_overdue(turn)) end_unsaved(turn);
      return;
    case Phase::kStopping:
      if (phases_.lasted_ns(turn) >
          (expects_late() ? config_.late_wait_ns : config_.goodbye_wait_ns))
        finish(turn);
      return;
    default:
      return;
  }
}

void Lifecycle::show_progress(Turn& turn) {
  ProgressSnapshot snapshot = report_.progress(turn);
  snapshot.phase = phases_.current();
  snapshot.epoch = history_.epoch();
  snapshot.steps = pass_.steps_done(step_base());
  snapshot.steps_counted = step_commits_.enabled() ? step_commits_.committed() : snapshot.steps;
  pass_.show(snapshot, history_.accounts());
  turn.emit(std::move(snapshot));
}

// ---- the end

void Lifecycle::stop(Turn& turn, int signal, const std::string& receiver) {
  if (phases_.stopping() && expects_late()) return finish(turn);
  if (ending_.stop_requested() || phases_.ending()) return;
  ending_.request_stop(turn, signal, receiver);
  leasing_.revoke_all(turn);
  if (config_.mode != wire::Purpose::kTrain) return end_unsaved(turn);
  if (!ownership_.published()) {
    // Partitions with batches of an earlier chief's leases are placed first, then saved.
    if (!members_hold_state()) end_unsaved(turn);
    return;
  }
  // Parts in flight are not covered by the images. Their batches are read again after a resume.
  if (phases_.reconciling()) {  // the number of complete epochs must be known first
    reconciliation_.then = Phase::kSaving;
    return;
  }
  turn.outbox().drop<wire::StatusRequest>();
  rounds_.cancel_repeat();
  const bool waits_already = phases_.saving() && checkpoints_.under_way();
  phases_.enter(turn, Phase::kSaving);
  if (!waits_already) want_save(turn);
}

/// Returns true if a ps holds partitions that it received from an earlier chief.
bool Lifecycle::members_hold_state() const {
  if (pass_.earlier_leases()) return true;
  return members_.count([](const Member& m) { return m.live() && !m.hello.claims.empty(); }) > 0;
}

/// Ends a stop without a checkpoint: there is nothing to save, or saving took too long.
void Lifecycle::end_unsaved(Turn& turn) {
  ending_.interrupt(false);
  begin_stop(turn, ending_.error()->what);
}

void Lifecycle::fail(Turn& turn, Error error) {
  if (phases_.ending()) return;
  const std::string reason =
      error.where.empty() ? error.what : str(error.what, " (", error.where, ")");
  ending_.fail(turn, std::move(error));
  begin_stop(turn, reason);
}

void Lifecycle::begin_stop(Turn& turn, const std::string& reason) {
  turn.outbox().clear();
  step_commits_.drop();
  checkpoints_.drop();
  phases_.enter(turn, Phase::kStopping);
  bool waiting = false;
  for (const Member& member : members_) {
    if (member.left) continue;
    turn.ask(member, wire::Stop{ending_.code(), reason});
    waiting |= member.live();
  }
  if (expects_late()) {
    turn.notice(NoticeLevel::kInfo,
                str(begun_ ? "the job has ended" : "the run is already finished",
                    "; the chief waits up to ", config_.late_wait_ns / kSecond,
                    " s for the ps and workers that have not joined, to end them"));
    waiting = true;
  }
  if (!waiting) finish(turn);
}

/// Returns true if the job has succeeded, but not all of its ps and workers have joined. They may
/// be starting. Without an answer they would report that the chief can't be reached.
bool Lifecycle::expects_late() const {
  if (!succeeded_in_cluster()) return false;
  const auto ps = members_.count([](const Member& m) { return m.is_ps(); });
  const auto workers = members_.count([](const Member& m) { return m.is_worker(); });
  return ps < config_.ps_cores_expected || workers < config_.workers_expected;
}

void Lifecycle::end_late(Turn& turn, const Member& member) const {
  turn.ask(member, wire::Stop{ending_.code(), "the job has already ended"});
}

void Lifecycle::finish_if_alone(Turn& turn) {
  const bool waiting = members_.count([](const Member& m) { return m.live(); }) > 0;
  if (!waiting && !expects_late() && !finished()) finish(turn);
}

void Lifecycle::leave_job(Turn& turn, Error error) {
  ending_.fail(turn, std::move(error));
  finish(turn);
}

void Lifecycle::supersede(Turn& turn, uint32_t term) {
  defended(Defence::kChiefSuperseded);
  turn.log(turn.event("superseded").add("by_term", term));
  ending_.set(
      Error{ErrorCode::kUnavailable,
            str("a newer chief (term ", term, ") has taken over this run from term ", config_.term),
            config_.job.run_dir,
            "no action is needed: the newer chief continues the run, and this chief has stopped"});
  finish(turn);
}

void Lifecycle::finish(Turn& turn) {
  phases_.enter(turn, Phase::kFinished);
  turn.outbox().clear();
  Finish effect{.code = ending_.code(), .error = ending_.error(), .summary = summary(turn)};
  effect.summary.already_finished =
      config_.mode == wire::Purpose::kTrain && ending_.code() == 0 && !begun_;
  turn.log(
      turn.event("finish").add("code", ending_.code()).add("sealed_epochs", history_.sealed()));
  turn.emit(std::move(effect));
}

JobSummary Lifecycle::summary(const Turn& turn) const {
  JobSummary s = report_.summary(turn);
  s.epochs_sealed = history_.sealed();
  s.steps = history_.steps_accounted();
  s.steps_counted = history_.steps_counted();
  s.epochs = history_.accounts();
  s.epochs_resumed = history_.resumed();
  s.evaluations = history_.evaluations();
  s.stopped_early = stops_early(config_.job, history_.evaluations());
  const KeptModel& best = checkpoints_.best();
  s.best_checkpoint = best.checkpoint;
  s.best_epochs =
      best.checkpoint != ViewId{} ? best.epochs : best_epochs(config_.job, history_.evaluations());
  s.predictions = prediction_.records();
  s.attempts_repeated = pass_.attempts_repeated();
  s.backups = pass_.backups();
  s.quarantined = policy_.decided();
  s.partitions_moved = moves_.counts().partitions;
  s.partitions_offloaded = moves_.counts().offloaded;
  s.move_pause_ns_max = moves_.counts().pause_ns_max;
  s.checkpoint = checkpoints_.newest().checkpoint;
  s.checkpoint_folder = checkpoints_.newest().folder;
  return s;
}

}  // namespace downpour::chief
