// ChiefCore: quarantine of batches, if the job allows it.
#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

/// Returns true if the job may continue without a batch that fails for this reason.
bool ChiefCore::may_quarantine(wire::FailureKind kind) const {
  if (table_.purpose() != wire::Purpose::kTrain) return false;
  const TrainSpec& train = config_.job.train;
  return kind == wire::FailureKind::kNotFinite ? train.on_nan == "skip" : train.quarantine;
}

/// Returns true if a shard that has failed needs a single-step lease, because the batch at which a
/// worker dies matters.
bool ChiefCore::single_step() const { return may_quarantine(wire::FailureKind::kOther); }

/// Proposes a batch that fails at every attempt. Its shard is not leased until all partitions have
/// decided.
void ChiefCore::quarantine_batch(Turn& turn, uint32_t shard, uint32_t batch, const Error& error) {
  const BatchId id{table_.epoch(), shard, batch};
  const auto too_much = [&](const auto&... what) {
    fail(turn, Error{error.code, str("batch ", id, " ", what..., ": ", error.what),
                     error.where.empty() ? range_text(shard) : error.where, error.hint, "DP-3402"});
  };
  if (const Quarantine::Marker* marker = quarantine_.find(id)) {
    return marker->state == Quarantine::State::kWithdrawn
               ? too_much("fails, and cannot be quarantined because a partition has applied it")
               : too_much("fails although it is quarantined");
  }
  if (quarantine_.size() >= config_.quarantined_max) {
    return too_much("is one more than the ", config_.quarantined_max,
                    " that may be quarantined at a time");
  }
  quarantine_.propose(id, error.what);
  turn.log(turn.event("give_up")
               .add("epoch", id.epoch)
               .add("shard", id.shard)
               .add("batch", id.batch)
               .add("what", error.what)
               .add("where", error.where.empty() ? range_text(shard) : error.where));
  revoke_all(turn, shard);
  reconcile_markers(turn);
}

/// Begins a reconciliation for markers; no shard is granted meanwhile. If another reconciliation is
/// running, its last round includes the markers.
void ChiefCore::reconcile_markers(Turn& turn) {
  if (phase_ != Phase::kTraining || !quarantine_.wants_round()) return;
  markers_only_ = true;
  reconciled_phase_ = Phase::kTraining;
  reconcile_epoch_ = history_.epoch();
  enter(turn, Phase::kReconciling);
  begin_round(turn);
}

/// Decides about the markers that the round sent to all partitions.
void ChiefCore::decide_markers(Turn& turn, const RoundOutcome& outcome) {
  if (outcome.markers.size() >
      config_.markers_max) {  // they would not fit an Adopt with its images
    return fail(turn, Error{ErrorCode::kMalformed,
                            str("the ps report ", outcome.markers.size(),
                                " quarantined batches, more than the limit of ",
                                config_.markers_max, " may be"),
                            {},
                            "run the job again: it goes on from the newest checkpoint"});
  }
  for (const wire::QuarantineMarker& answer : outcome.markers) {
    const Quarantine::Marker* marker = quarantine_.find(answer.batch);
    const bool quarantined =
        answer.passed || (marker != nullptr && marker->state == Quarantine::State::kQuarantined);
    if (!quarantined || (!answer.had && !answer.withdrawn)) continue;
    // This happens only if a ps that was replaced returns as the only holder of a partition.
    return fail(turn, Error{ErrorCode::kPeersLost,
                            str("batch ", answer.batch,
                                " was quarantined by some partitions and applied "
                                "by another, which did not take part in the decision"),
                            train_range_text(answer.batch.shard_id()),
                            "run the job again: it goes on from the newest checkpoint"});
  }
  for (const Quarantine::Decision& decision : quarantine_.end_round(outcome.markers)) {
    const BatchId batch = decision.batch;
    const bool quarantined = decision.state == Quarantine::State::kQuarantined;
    defended(quarantined ? Defence::kChiefQuarantined : Defence::kChiefWithdrawn);
    turn.log(turn.event(quarantined ? "quarantined" : "quarantine_withdrawn")
                 .add("epoch", batch.epoch)
                 .add("shard", batch.shard)
                 .add("batch", batch.batch)
                 .add("why", decision.why));
    if (batch.epoch == table_.epoch() && batch.shard < table_.shard_count() &&
        table_.purpose() == wire::Purpose::kTrain) {
      table_.forgive(batch.shard);
    }
    if (!quarantined) {
      turn.notice(
          NoticeLevel::kWarning,
          str("batch ", batch, " is not quarantined, because a partition has already applied it"));
      continue;
    }
    const std::string where = train_range_text(batch.shard_id());
    turn.notice(NoticeLevel::kWarning, str("batch ", batch, " of ", where,
                                           " is left out, its records count as quarantined",
                                           decision.why.empty() ? "" : ": ", decision.why));
    quarantined_.push_back({batch, where, decision.why});
  }
}

/// Returns the range of a training shard of any epoch, in words.
std::string ChiefCore::train_range_text(ShardId shard) const {
  if (shard.shard >= train_shards()) return {};
  return plan::text_of(train_shards_.at(shard.epoch, shard.shard), config_.train_files);
}

}  // namespace downpour::chief
