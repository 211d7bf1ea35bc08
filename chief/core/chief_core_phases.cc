// ChiefCore: the phases of the job: its start, its time limits, its end.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

void ChiefCore::begin_job(Turn& turn) {
  phase_ns_ = turn.now_ns();
  turn.log(turn.event("start")
               .add("run", config_.run)
               .add("term", config_.term)
               .add("plan", config_.plan_hash)
               .add("train_shards", train_shards_.open_piece() > 0 ? 0 : train_shards())
               .add("sealed_epochs", history_.sealed()));
  // A stop may have come between the last epoch and its evaluation. Then the evaluation follows
  // now.
  if (config_.mode == wire::Purpose::kTrain && history_.trained() && history_.evaluated())
    return finish(turn);
  history_.drop_partial();
  const bool no_input =
      config_.mode == wire::Purpose::kTrain ? train_shards() == 0 : eval_ranges_.empty();
  if (no_input) fail(turn, Error{ErrorCode::kNoInput, "the data set has no bytes to read"});
}

/// Records that partitions are placed. `claimed`: partitions and leases of an earlier chief exist.
void ChiefCore::begin_placing(Turn& turn, bool claimed) {
  enter(turn, Phase::kAdopting);
  claimed_ = claimed;
  const bool holds_batches = claimed || !checkpoints_.newest().images.empty();
  if (config_.mode == wire::Purpose::kTrain && holds_batches) quarantine_.forget_what_others_know();
}

/// Returns to the epochs of an older checkpoint, from which every partition is restored.
void ChiefCore::go_back_to(Turn& turn, ResumeState&& older) {
  const uint32_t sealed_epochs = older.sealed_epochs;
  history_.limit_resumed(older.epochs.size());
  const bool train = config_.mode == wire::Purpose::kTrain;
  if (!begun_ && train) history_.replace_results(std::move(older));
  history_.unseal(sealed_epochs);
  interrupt(turn, "everything goes back");
  if (!begun_) {
    history_.restart_from(sealed_epochs);
    claimed_ = false;
  } else if (train) {
    // The older images may hold markers of epochs that were sealed later.
    quarantine_.forget_what_others_know();
  }
}

void ChiefCore::check_idle_leases(Turn& turn) {
  if (!leasing() || DP_MUTATE("no-lease-expiry")) return;
  const auto idle = table_.idle(turn.now_ns() - config_.lease_idle_ns,
                                turn.now_ns() - config_.lease_stall_ns, config_.joining.in_order);
  for (const LeaseTable::Held& held : idle) {
    // A worker that sends nothing at all may have died. Then the time limit for its silence ends
    // the lease, and counts a failed attempt.
    const Member* worker = members_.find_worker(held.worker);
    if (worker != nullptr && worker->live() &&
        turn.now_ns() - worker->heard_ns > config_.heartbeat_ns) {
      continue;
    }
    defended(Defence::kChiefLeaseIdle);
    turn.log(turn.event("idle")
                 .add("epoch", table_.epoch())
                 .add("shard", held.shard)
                 .add("attempt", table_.holder(held.shard, held.worker)->attempt));
    revoke(turn, held.shard, held.worker);
  }
}

void ChiefCore::check_rounds(Turn& turn) {
  if (config_.job.train.steps > 0 && phase_ == Phase::kTraining) check_pass_end(turn);
  if (rounds_.due(turn) && (phase_ == Phase::kReconciling || phase_ == Phase::kCompleting)) {
    begin_round(turn);
  }
}

void ChiefCore::check_limits(Turn& turn) {
  switch (phase_) {
    case Phase::kGathering:
    case Phase::kAdopting:
    case Phase::kReconciling:
      if (stop_overdue(turn)) end_unsaved(turn);
      return;
    case Phase::kStopping:
      if (turn.now_ns() - phase_ns_ > config_.goodbye_wait_ns) finish(turn);
      return;
    default:
      return;
  }
}

// ---- the end

/// Fails this chief without a message to the members, because another chief may continue with them.
void ChiefCore::leave_job(Turn& turn, Error error) {
  turn.log(turn.event("failed")
               .add("code", exit_code(error.code))
               .add("what", error.what)
               .add("where", error.where));
  code_ = exit_code(error.code);
  error_ = std::move(error);
  finish(turn);
}

void ChiefCore::fail(Turn& turn, Error error) {
  if (ending()) return;
  turn.log(turn.event("failed")
               .add("code", exit_code(error.code))
               .add("what", error.what)
               .add("where", error.where));
  const int32_t code = exit_code(error.code);
  const std::string reason =
      error.where.empty() ? error.what : str(error.what, " (", error.where, ")");
  error_ = std::move(error);
  begin_stop(turn, code, reason);
}

void ChiefCore::begin_stop(Turn& turn, int32_t code, std::string reason) {
  code_ = code;
  turn.outbox().clear();
  checkpoints_.drop();
  enter(turn, Phase::kStopping);
  bool waiting = false;
  for (const Member& member : members_) {
    if (member.left) continue;
    turn.ask(member, wire::Stop{code, reason});
    waiting |= member.live();
  }
  if (!waiting) finish(turn);
}

/// Finishes if no live member is left to answer the Stop.
void ChiefCore::finish_if_alone(Turn& turn) {
  const bool waiting = members_.count([](const Member& m) { return m.live(); }) > 0;
  if (!waiting && !finished()) finish(turn);
}

/// Ends this chief without a message to the members, because they belong to the newer chief.
void ChiefCore::supersede(Turn& turn, uint32_t term) {
  defended(Defence::kChiefSuperseded);
  turn.log(turn.event("superseded").add("by_term", term));
  error_ =
      Error{ErrorCode::kUnavailable,
            str("a newer chief (term ", term, ") has taken over this run from term ", config_.term),
            config_.job.run_dir, "let the newer one finish; this one has stopped"};
  code_ = exit_code(error_->code);
  finish(turn);
}

void ChiefCore::finish(Turn& turn) {
  enter(turn, Phase::kFinished);
  turn.outbox().clear();
  Finish effect{.code = code_, .error = error_, .summary = summary(turn)};
  effect.summary.already_finished = config_.mode == wire::Purpose::kTrain && code_ == 0 && !begun_;
  turn.log(turn.event("finish").add("code", code_).add("sealed_epochs", history_.sealed()));
  turn.emit(std::move(effect));
}

}  // namespace downpour::chief
