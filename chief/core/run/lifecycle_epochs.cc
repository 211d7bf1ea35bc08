// Lifecycle: epochs and other passes, synchronous steps, completion rounds, and the reconciliation
// after partitions were restored.
#include <algorithm>
#include <utility>

#include "chief/core/cluster/ps_cores.h"
#include "chief/core/run/lifecycle.h"
#include "chief/core/run/selection.h"
#include "chief/core/work/account.h"
#include "shared/base/defence.h"
#include "shared/optim/schedule.h"

namespace downpour::chief {

// ---- passes

void Lifecycle::begin_work(Turn& turn) {
  checkpoints_.start(turn, pass_.steps());
  clocks_.begin(turn.now_ns());
  if (config_.mode == wire::Purpose::kEval) return begin_evaluation(turn);
  if (config_.mode == wire::Purpose::kPredict) return begin_prediction(turn);
  if (ending_.stop_requested()) {  // the partitions hold batches of an earlier chief's leases
    phases_.enter(turn, Phase::kSaving);
    return want_save(turn);
  }
  if (history_.trained()) return begin_evaluation(turn);
  if (checkpoints_.newest().images.empty()) step_commits_.begin_empty();
  // Partitions from a checkpoint or an earlier chief may hold part of the epoch, so ask them first.
  begin_epoch(turn, pass_.earlier_leases() || !checkpoints_.newest().images.empty());
}

/// Begins a pass. Returns false if that fails the job.
bool Lifecycle::open_pass(Turn& turn, const wire::Lease& pattern) {
  Result<void> opened = pass_.open(pattern);
  if (!opened) fail(turn, std::move(opened).error());
  return bool(opened);
}

void Lifecycle::begin_epoch(Turn& turn, bool reconcile) {
  if (!open_epoch(turn)) return;
  if (!reconcile) return phases_.enter(turn, Phase::kTraining);
  reconciliation_.then = Phase::kTraining;
  reconciliation_.epoch = history_.epoch();
  phases_.enter(turn, Phase::kReconciling);
  begin_round(turn);
}

bool Lifecycle::open_epoch(Turn& turn) {
  history_.begin_epoch();
  report_.begin_epoch(turn);
  rounds_.forget_void();
  clocks_.begin_pass(turn.now_ns());
  step_commits_.begin_pass(turn.now_ns());
  // The number depends only on earlier evaluations, so a repeated epoch has the same learning rate.
  const uint32_t reductions =
      plateau_after(config_.job, history_.evaluations(), history_.epoch()).reductions;
  const bool opened = open_pass(turn, {.purpose = wire::Purpose::kTrain,
                                       .shard = {history_.epoch(), 0},
                                       .plan_hash = config_.plan_hash,
                                       .rate_reductions = reductions});
  if (!opened) return false;
  limit_steps(turn);
  JsonLine line = turn.event("epoch")
                      .add("epoch", history_.epoch())
                      .add("shards", pass_.table().shard_count())
                      .add("bytes", pass_.bytes_total());
  if (reductions > 0) line.add("rate_reductions", reductions);
  turn.log(line);
  return true;
}

void Lifecycle::check_pass_end(Turn& turn) {
  const bool partial = phases_.training() && pass_.partial_epoch_is_read(turn, step_base());
  if (!pass_.table().all_ended() && !partial) return;
  if (phases_.training()) {
    phases_.enter(turn, Phase::kCompleting);
    begin_round(turn);
  } else if (phases_.current() == Phase::kEvaluating) {
    end_evaluation(turn);
  } else if (phases_.current() == Phase::kPredicting) {
    begin_stop(turn, {});
  }
}

/// In synchronous training: once `train.steps` is reached, no replica begins another shard. After a
/// return to an earlier step, replicas begin shards again.
void Lifecycle::limit_steps(Turn& turn) {
  const uint64_t wanted = config_.job.train.steps;
  if (!step_commits_.enabled() || wanted == 0 || !pass_.trains()) return;
  pass_.table().close(step_commits_.committed() >= wanted);
  if (pass_.table().is_closed()) leasing_.revoke_not_begun(turn);
}

/// Ends an epoch that is complete and evaluated: requests a checkpoint that seals it, and begins
/// the next epoch.
void Lifecycle::end_epoch(Turn& turn) {
  checkpoints_.want();
  next_epoch(turn);
  check_save(turn);
}

void Lifecycle::next_epoch(Turn& turn) {
  if (history_.trained() || checkpoints_.waits_for_best() ||
      history_.complete() - history_.sealed() >= config_.unsealed_epochs_max) {
    return phases_.enter(turn, Phase::kSaving);  // after_save() continues
  }
  history_.advance();
  begin_epoch(turn, pass_.earlier_leases() || history_.epoch() < history_.begun());
}

void Lifecycle::begin_evaluation(Turn& turn) {
  const uint32_t id = history_.next_evaluation();
  const uint32_t trained =
      config_.mode == wire::Purpose::kTrain ? history_.epochs_trained() : history_.sealed();
  evaluation_ = EvaluationRun(id, trained, turn.now_ns());
  phases_.enter(turn, Phase::kEvaluating);
  const bool opened = open_pass(turn, {.purpose = wire::Purpose::kEval,
                                       .shard = {history_.epoch(), 0},
                                       .plan_hash = config_.plan_hash,
                                       .evaluation = id});
  if (!opened) return;
  turn.log(turn.event("evaluation")
               .add("evaluation", id)
               .add("epochs", trained)
               .add("shards", pass_.table().shard_count()));
}

void Lifecycle::end_evaluation(Turn& turn) {
  Evaluation evaluation = evaluation_.finish(config_.job, turn.now_ns());
  evaluation.data = config_.eval_data;
  evaluation.trained_on = config_.eval_trained_on;
  turn.log(turn.event("evaluated")
               .add("evaluation", evaluation.id)
               .add("epochs", evaluation.epochs_trained)
               .add("read", evaluation.counts.read)
               .add("applied", evaluation.counts.applied));
  const uint32_t epochs = evaluation.epochs_trained;
  const uint32_t before = plateau_after(config_.job, history_.evaluations(), epochs).reductions;
  if (!history_.evaluations().empty() && other_data(history_.evaluations().back(), evaluation)) {
    turn.notice(NoticeLevel::kInfo,
                "the evaluation data are not those of the epochs before, so the best epoch is "
                "chosen anew, from this one on");
  }
  history_.add(evaluation);
  turn.emit(EvalDone{std::move(evaluation)});
  const uint32_t after = plateau_after(config_.job, history_.evaluations(), epochs).reductions;
  if (after > before && config_.mode == wire::Purpose::kTrain) {
    const ScheduleSpec& schedule = *plateau_schedule(config_.job);
    const double factor =
        optim::schedule_factor(schedule, std::max<uint64_t>(schedule.warmup_steps, 1), after);
    turn.notice(NoticeLevel::kInfo,
                str(judged_text(config_.job), " has not improved for ", schedule.patience,
                    schedule.patience == 1 ? " epoch" : " epochs", ": the learning rate is now ",
                    factor, " times the initial one (optimizer.schedule)"));
  }
  if (config_.mode == wire::Purpose::kEval) return begin_stop(turn, {});
  end_epoch(turn);
}

void Lifecycle::begin_prediction(Turn& turn) {
  phases_.enter(turn, Phase::kPredicting);
  const bool opened = open_pass(turn, {.purpose = wire::Purpose::kPredict,
                                       .shard = {history_.epoch(), 0},
                                       .plan_hash = config_.plan_hash});
  if (opened) turn.log(turn.event("prediction").add("shards", pass_.table().shard_count()));
}

// ---- steps

void Lifecycle::on_staged(const Member& member, ViewId view, wire::Staged&& staged) {
  const auto owner = ownership_.owner_number(ps_key(member));
  if (!owner || view != ownership_.view().id) return defended(Defence::kChiefStagedLate);
  step_commits_.take(*owner, std::move(staged));
}

void Lifecycle::on_committed(Turn& turn, const Member& member, ViewId view,
                             const wire::Committed& committed, const Bytes& squares) {
  if (step_commits_.precedes_rollback(view)) return;  // of a step that is lost
  if (committed.measured) {
    if (const auto commit = step_commits_.on_measured(member, committed, squares))
      send_commit(turn, *commit);
    return;
  }
  if (!step_commits_.on_committed(turn, member, committed)) return;
  limit_steps(turn);
  // These have waited for the step.
  if (phases_.in_round() && !rounds_.waits()) begin_round(turn);
  check_save(turn);
}

void Lifecycle::commit_step(Turn& turn) {
  if (!step_commits_.enabled() || !phases_.training() || !settled() || ending_.stop_requested() ||
      save_due(turn)) {
    return;
  }
  if (const wire::Expect* const expect = step_commits_.expect(pass_.table())) {
    for_each_owner(members_, ownership_.view(), [&](uint32_t owner, const Member& member) {
      if (step_commits_.must_send(owner)) turn.send(member, *expect, turn.next_request());
    });
  }
  auto commit = step_commits_.due(pass_.table());
  if (!commit) return fail(turn, std::move(commit).error());
  if (!*commit) return;
  for (const wire::StepPart& part : (*commit)->parts) pass_.table().mark_begun(part.batch.shard);
  send_commit(turn, step_commits_.begin(wire::Commit(**commit)));
  leasing_.move_replicas(turn, step_commits_.leave_out(turn, pass_.table(), **commit));
}

void Lifecycle::send_commit(Turn& turn, const wire::Commit& commit) {
  for_each_owner(members_, ownership_.view(), [&](uint32_t, const Member& member) {
    step_commits_.sent(turn, member, commit);
    turn.send(member, commit, turn.next_request());
  });
}

// ---- rounds

void Lifecycle::begin_round(Turn& turn) {
  rounds_.cancel_repeat();
  if (!settled()) return;  // begins when every partition has an owner again
  // Begins when all partitions are at the same step. Otherwise a marker could reach some partitions
  // before the step, and others after it.
  if (!step_commits_.quiet()) return;
  const uint32_t epoch = phases_.reconciling() ? reconciliation_.epoch : history_.epoch();
  rounds_.begin(turn, epoch, pass_.extent_of(epoch, history_.accounts()), ownership_.view());
  quarantine_.begin_round();
  const auto request = rounds_.current().request(quarantine_.markers(), quarantine_.known());
  for_each_owner(members_, ownership_.view(),
                 [&](uint32_t, const Member& member) { turn.ask(member, request); });
}

void Lifecycle::on_status(Turn& turn, Member& member, wire::StatusReply&& reply) {
  const auto owner = ownership_.owner_number(ps_key(member));
  if (!owner || rounds_.waits() || !phases_.in_round()) return;
  std::string why;
  switch (rounds_.current().take(*owner, std::move(reply), why)) {
    case CompletionRound::Verdict::kIgnored:
      return;
    case CompletionRound::Verdict::kFailed:
      return fail(turn, Error{ErrorCode::kBadData, str(member.name(), ": ", why)});
    case CompletionRound::Verdict::kVoid:
      turn.send(member, ownership_.view());  // it may have missed the view
      return void_round(turn, str(member.name(), ": ", why));
    case CompletionRound::Verdict::kTaken:
      break;
  }
  turn.outbox().answered(member);
  if (rounds_.current().all_in()) end_round(turn);
}

void Lifecycle::void_round(Turn& turn, const std::string& why) {
  if (rounds_.repeat(turn, why)) return;
  fail(turn, Error{ErrorCode::kPeersLost,
                   str("epoch ", history_.epoch() + 1, " cannot be completed: ", why)});
}

void Lifecycle::end_round(Turn& turn) {
  Result<RoundOutcome> outcome = rounds_.current().judge();
  if (!outcome) return fail(turn, std::move(outcome).error());
  rounds_.forget_void();
  if (auto taken = step_commits_.take_versions(*outcome); !taken)
    return fail(turn, std::move(taken).error());
  limit_steps(turn);
  // A ps that has missed Sealed still has the markers of sealed epochs.
  std::erase_if(outcome->markers, [&](const auto& l) { return l.batch.epoch < history_.sealed(); });
  if (auto decided = policy_.decide(turn, *outcome); !decided)
    return fail(turn, std::move(decided).error());
  if (quarantine_.wants_round()) return begin_round(turn);
  if (phases_.reconciling()) return end_reconcile(turn, *outcome);
  if (outcome->lacking.empty() || history_.ends_with(*outcome))
    return complete_epoch(turn, *outcome);
  if (!take_lacking(turn, *outcome)) return;
  // If the job may end inside the epoch, shards that were not begun need not be leased.
  const bool all = config_.job.train.steps == 0;
  const auto again = std::count_if(outcome->lacking.begin(), outcome->lacking.end(),
                                   [&](const LackingShard& shard) { return all || shard.begun; });
  if (again > 0) {
    turn.notice(
        NoticeLevel::kWarning,
        str("of epoch ", history_.epoch() + 1, " ", again, " of ", pass_.table().shard_count(),
            " shards are incomplete at some partition and are leased again"));
  }
  phases_.enter(turn, Phase::kTraining);
}

/// Leases the shards that some partition lacks. Returns false if that fails the job.
bool Lifecycle::take_lacking(Turn& turn, const RoundOutcome& outcome) {
  if (auto taken = leasing_.take_lacking(turn, outcome); !taken)
    fail(turn, std::move(taken).error());
  defended(Defence::kChiefLacking);
  turn.log(turn.event("round_lacking")
               .add("round", rounds_.number())
               .add("shards", outcome.lacking.size())
               .add("first", outcome.lacking.front().shard));
  return !phases_.ending();
}

namespace {

/// Returns "3-7,9-10" for [3, 7) and [9, 10); empty if there are too many intervals for a line.
std::string left_text(const std::vector<LackingShard>& left) {
  constexpr size_t kPiecesMax = 256;
  std::string text;
  size_t pieces = 0;
  for (size_t i = 0, begin = 0; i < left.size(); ++i) {
    if (i + 1 < left.size() && left[i + 1].shard == left[i].shard + 1) continue;
    if (++pieces > kPiecesMax) return {};
    text += str(text.empty() ? "" : ",", left[begin].shard, '-', left[i].shard + 1);
    begin = i + 1;
  }
  return text;
}

/// Returns the error for a whole epoch without a batch. Another epoch of the same data has none
/// either, and a model that has seen no record is worth nothing.
Error no_batch(const wire::ShardCounts& counts) {
  return Error{ErrorCode::kNoInput,
               str("the epoch has no batch to train on: ", account_text(counts)), "data",
               "check how many records data.filter keeps; with train.drop_remainder, a shard needs "
               "at least train.batch_size records"};
}

}  // namespace

void Lifecycle::complete_epoch(Turn& turn, const RoundOutcome& outcome) {
  const uint32_t epoch = history_.epoch();
  Result<wire::ShardCounts> counts = pass_.settle(epoch, outcome);
  if (!counts) return fail(turn, std::move(counts).error().with_context("epoch ", epoch + 1));
  const bool partial = !outcome.lacking.empty();
  if (!partial && counts->batches == 0) return fail(turn, no_batch(*counts));
  report_.note_trained(turn);
  EpochAccount account{
      .epoch = epoch,
      .shards = outcome.shards - uint32_t(outcome.lacking.size()),
      .shards_left = uint32_t(outcome.lacking.size()),
      .version = outcome.partitions.empty() ? 0 : outcome.partitions.front().version,
      .input_bytes = pass_.open_stream() ? counts->read
                     : partial           ? pass_.bytes_ended()
                                         : pass_.bytes_total(),
      .unread_bytes = pass_.unread_bytes(epoch),
      .counts = *counts,
      .metrics = outcome.metrics,
      .attempts_repeated = pass_.table().attempts_repeated()};
  report_.measure_epoch(turn, account);
  JsonLine line = turn.event("complete")
                      .add("epoch", epoch)
                      .add("round", rounds_.number())
                      .add("shards_left", account.shards_left)
                      .add("read", counts->read)
                      .add("applied", counts->applied)
                      .add("filtered", counts->filtered)
                      .add("skipped", counts->skipped)
                      .add("dropped", counts->dropped)
                      .add("quarantined", counts->quarantined)
                      .add("batches", counts->batches)
                      .add("duplicate_parts", account.duplicate_parts)
                      .add("gaps", account.gaps);
  if (partial) line.add("left", left_text(outcome.lacking));
  turn.log(line);
  if (config_.job.train.whole_epochs() && counts->batches > account.shards) {
    turn.notice(
        NoticeLevel::kWarning,
        str("epoch ", epoch + 1, " had a second local round, because a replica's share has ",
            "more than ", config_.job.train.part_records(),
            " records: raise train.replicas, or set train.sync_every to a number"));
  }
  history_.add(account, partial);
  turn.emit(EpochDone{std::move(account), report_.take_observed()});
  if (ending_
          .stop_requested()) {  // it came during the reconciliation that found the epoch complete
    phases_.enter(turn, Phase::kSaving);
    return want_save(turn);
  }
  if (evaluates(config_)) return begin_evaluation(turn);
  end_epoch(turn);
}

// ---- reconciliation

void Lifecycle::interrupt(Turn& turn, const std::string& why) {
  if (phases_.in_round()) {
    defended(Defence::kChiefRoundInterrupted);
    rounds_.interrupt(turn);
  }
  checkpoints_.abandon(turn, why);
}

/// Asks all partitions what they hold, from the first unsealed epoch on, because some partition was
/// restored. Training returns to the first epoch of which a partition lacks something.
void Lifecycle::reconcile(Turn& turn) {
  if (config_.mode != wire::Purpose::kTrain) return continue_phase(turn);  // applies nothing
  if (!phases_.reconciling()) {
    const bool completing = phases_.current() == Phase::kCompleting;
    reconciliation_.then = completing ? Phase::kTraining : phases_.current();
  }
  if (history_.drop_partial()) {  // its account is void until the round after this one
    checkpoints_.choose_best();
    leasing_.revoke_all(turn);
    if (!open_epoch(turn)) return;
    reconciliation_.then = ending_.stop_requested() ? Phase::kSaving : Phase::kTraining;
  }
  reconciliation_.epoch = history_.sealed();
  reconciliation_.markers_only = false;
  phases_.enter(turn, Phase::kReconciling);
  reconcile_next(turn);
}

/// Begins a reconciliation for markers; no shard is granted meanwhile. If another reconciliation is
/// running, its last round includes the markers.
void Lifecycle::reconcile_markers(Turn& turn) {
  if (!phases_.training() || !quarantine_.wants_round()) return;
  reconciliation_ = {.epoch = history_.epoch(), .markers_only = true, .then = Phase::kTraining};
  phases_.enter(turn, Phase::kReconciling);
  begin_round(turn);
}

void Lifecycle::reconcile_next(Turn& turn) {
  // All partitions are asked about the epoch in training, but not about an epoch that has not
  // begun.
  if (reconciliation_.epoch < history_.complete() || reconciliation_.then == Phase::kTraining) {
    return begin_round(turn);
  }
  phases_.enter(turn, reconciliation_.then);
  continue_phase(turn);
  check_pass_end(turn);
}

void Lifecycle::end_reconcile(Turn& turn, const RoundOutcome& outcome) {
  const bool stopping = ending_.stop_requested();
  if (std::exchange(reconciliation_.markers_only, false)) {
    phases_.enter(turn, stopping ? Phase::kSaving : Phase::kTraining);
    return stopping ? want_save(turn) : check_pass_end(turn);
  }
  const uint32_t epoch = reconciliation_.epoch;
  if (outcome.lacking.empty()) {
    if (epoch == history_.complete()) return complete_epoch(turn, outcome);
    ++reconciliation_.epoch;
    return reconcile_next(turn);
  }
  if (epoch < history_.complete() && !roll_back_to(turn, epoch)) return;
  // A stop may have come between an epoch and its evaluation, which follows now.
  const bool begun = std::ranges::any_of(outcome.lacking, &LackingShard::begun) ||
                     outcome.lacking.size() < outcome.shards || pass_.earlier_leases();
  if (!begun && !stopping && history_.complete() > 0 && !history_.evaluated()) {
    history_.unbegin_epoch();
    return begin_evaluation(turn);
  }
  if (!take_lacking(turn, outcome)) return;
  phases_.enter(turn, stopping ? Phase::kSaving : Phase::kTraining);
  return stopping ? want_save(turn) : check_pass_end(turn);
}

/// Returns to an epoch that was complete and is not any more. Returns false if that fails the job.
bool Lifecycle::roll_back_to(Turn& turn, uint32_t epoch) {
  defended(Defence::kChiefRollsBack);
  turn.notice(NoticeLevel::kWarning,
              str("epoch ", epoch + 1,
                  " is no longer complete at every partition, so its training continues"));
  leasing_.revoke_all(turn);
  history_.roll_back_to(epoch);
  checkpoints_.choose_best();
  return open_epoch(turn);
}

}  // namespace downpour::chief
