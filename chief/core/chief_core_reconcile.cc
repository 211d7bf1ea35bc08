// ChiefCore: what a change of owners means for the job, and the reconciliation that follows.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

/// Begins or continues the work under a new view. `rolled_back`: some partition was restored or
/// began empty since the view before.
void ChiefCore::on_view_published(Turn& turn, bool rolled_back) {
  if (!begun_) {
    begun_ = true;
    return begin_work(turn);
  }
  interrupt(turn, "another view is published");
  if (rolled_back && !DP_MUTATE("no-survey-after-a-rollback")) {
    reconcile(turn);
  } else {
    continue_phase(turn);
  }
}

/// Returns an Adopt without partitions: what every core must know that adopts some.
wire::Adopt ChiefCore::adopt_request() const {
  return {.sealed_epochs = history_.sealed(),
          .markers = quarantine_.markers(),
          .markers_known = quarantine_.known(),
          .plan_hash = ownership_.view().plan_hash};
}

/// Returns true if a move may begin: shards are leased, every partition has an owner, and no
/// checkpoint would lose its images by it.
bool ChiefCore::may_move(const Turn& turn) const {
  return leasing() && stop_signal_ == 0 && ownership_.whole() && !checkpoints_.under_way() &&
         !save_due(turn);
}

/// Voids the running round and checkpoint, because ownership has changed or is about to change.
void ChiefCore::interrupt(Turn& turn, const std::string& why) {
  if ((phase_ == Phase::kReconciling || phase_ == Phase::kCompleting) &&
      !DP_MUTATE("round-survives-a-change-of-ownership")) {
    defended(Defence::kChiefRoundInterrupted);
    rounds_.interrupt(turn);
  }
  checkpoints_.abandon(turn, why);
}

/// Continues the phase that waited for owners, when every partition has one and none was rolled
/// back.
void ChiefCore::continue_phase(Turn& turn) {
  if (phase_ == Phase::kReconciling || phase_ == Phase::kCompleting) {
    begin_round(turn);
  } else if (phase_ == Phase::kSaving && !checkpoints_.under_way()) {
    want_save(turn);
  }
}

/// Asks all partitions what they hold, from the first unsealed epoch on, because some partition was
/// restored. Training returns to the first epoch of which a partition lacks something.
void ChiefCore::reconcile(Turn& turn) {
  if (config_.mode != wire::Purpose::kTrain) return continue_phase(turn);  // applies nothing
  if (phase_ != Phase::kReconciling) {
    reconciled_phase_ = phase_ == Phase::kCompleting ? Phase::kTraining : phase_;
  }
  if (history_.drop_partial()) {  // its account is void until the round after this one
    for (const uint32_t shard : table_.leased()) revoke_all(turn, shard);
    open_epoch(turn);
    reconciled_phase_ = stop_signal_ != 0 ? Phase::kSaving : Phase::kTraining;
  }
  reconcile_epoch_ = history_.sealed();
  markers_only_ = false;
  enter(turn, Phase::kReconciling);
  reconcile_next(turn);
}

void ChiefCore::reconcile_next(Turn& turn) {
  // All partitions are asked about the epoch in training, but not about an epoch that has not
  // begun.
  if (reconcile_epoch_ < history_.complete() || reconciled_phase_ == Phase::kTraining) {
    return begin_round(turn);
  }
  enter(turn, reconciled_phase_);
  continue_phase(turn);
  check_pass_end(turn);
}

void ChiefCore::end_reconcile(Turn& turn, const RoundOutcome& outcome) {
  if (std::exchange(markers_only_, false)) {
    enter(turn, stop_signal_ != 0 ? Phase::kSaving : Phase::kTraining);
    return stop_signal_ != 0 ? want_save(turn) : check_pass_end(turn);
  }
  if (outcome.lacking.empty()) {
    if (reconcile_epoch_ == history_.complete()) return complete_epoch(turn, outcome);
    ++reconcile_epoch_;
    return reconcile_next(turn);
  }
  if (reconcile_epoch_ < history_.complete()) roll_back_to(turn, reconcile_epoch_);
  take_lacking(turn, outcome);
  if (ending()) return;
  if (stop_signal_ != 0) {
    enter(turn, Phase::kSaving);
    return want_save(turn);
  }
  enter(turn, Phase::kTraining);
  check_pass_end(turn);
}

/// Returns to an epoch that was complete and is not any more. Its account, its evaluation, and
/// everything that followed are void.
void ChiefCore::roll_back_to(Turn& turn, uint32_t epoch) {
  defended(Defence::kChiefRollsBack);
  turn.notice(
      NoticeLevel::kWarning,
      str("epoch ", epoch, " is not whole any more at every partition: its training goes on"));
  for (const uint32_t shard : table_.leased()) revoke_all(turn, shard);
  history_.roll_back_to(epoch);
  open_epoch(turn);
}

/// Leases the shards that some partition lacks, according to a valid round. All others have ended.
void ChiefCore::take_lacking(Turn& turn, const RoundOutcome& outcome) {
  if (outcome.shards > table_.shard_count()) add_shards(outcome.shards - table_.shard_count());
  std::vector<bool> lacking(table_.shard_count());
  // Shards of an open stream that were not asked about have not been begun.
  std::fill(lacking.begin() + outcome.shards, lacking.end(), true);
  for (const LackingShard& shard : outcome.lacking) {
    lacking[shard.shard] = true;
    table_.reopen(shard.shard, shard.first_batch);
    if (shard.begun) table_.mark_begun(shard.shard);
  }
  bytes_ended_ = 0;
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard) {
    if (lacking[shard]) continue;
    revoke_all(turn, shard);
    table_.end(shard);
    bytes_ended_ += bytes_of(shard);
  }
  // Steps according to the partitions: the smallest sum over their ended shards, plus the common
  // batches of the lacking shards. This is an estimate, because a lacking shard may have ended at
  // some of them.
  epoch_steps_ = UINT64_MAX;
  for (const wire::PartitionStatus& status : outcome.partitions)
    epoch_steps_ = std::min<uint64_t>(epoch_steps_, status.counts.batches);
  if (outcome.partitions.empty()) epoch_steps_ = 0;
  for (const LackingShard& shard : outcome.lacking) epoch_steps_ += shard.first_batch;
  epoch_acked_ = table_.batches_acked();
  extend_open_pass(turn);
  defended(Defence::kChiefLacking);
  turn.log(turn.event("round_lacking")
               .add("round", rounds_.number())
               .add("shards", outcome.lacking.size())
               .add("first", outcome.lacking.front().shard));
}

}  // namespace downpour::chief
