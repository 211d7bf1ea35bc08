#include "chief/core/work/quarantine_policy.h"

#include <string>

#include "shared/base/defence.h"

namespace downpour::chief {

bool QuarantinePolicy::may_quarantine(wire::FailureKind kind) const {
  if (!pass_.trains()) return false;
  const TrainSpec& train = config_.job.train;
  return kind == wire::FailureKind::kNotFinite ? train.on_nan == "skip" : train.quarantine;
}

Result<void> QuarantinePolicy::propose(Turn& turn, uint32_t shard, uint32_t batch,
                                       const Error& error) {
  const BatchId id{pass_.table().epoch(), shard, batch};
  const auto too_much = [&](const auto&... what) {
    return Error{error.code, str("batch ", id, " ", what..., ": ", error.what),
                 error.where.empty() ? pass_.range_text(shard) : error.where, error.hint,
                 "DP-3402"};
  };
  if (const Quarantine::Marker* marker = quarantine_.find(id)) {
    return marker->state == Quarantine::State::kWithdrawn
               ? too_much(
                     "fails, and can't be quarantined because a partition has already applied it")
               : too_much("fails although it is quarantined");
  }
  if (quarantine_.size() >= config_.quarantined_max) {
    return too_much("exceeds the limit of ", config_.quarantined_max,
                    " batches that can be quarantined at the same time");
  }
  quarantine_.propose(id, error.what);
  turn.log(turn.event("quarantine_proposed")
               .add("epoch", id.epoch)
               .add("shard", id.shard)
               .add("batch", id.batch)
               .add("what", error.what)
               .add("where", error.where.empty() ? pass_.range_text(shard) : error.where));
  return {};
}

Result<void> QuarantinePolicy::decide(Turn& turn, const RoundOutcome& outcome) {
  if (outcome.markers.size() >
      config_.markers_max) {  // they would not fit an Adopt with its images
    return Error{ErrorCode::kMalformed,
                 str("the ps report ", outcome.markers.size(), " quarantined batches, but at most ",
                     config_.markers_max, " are allowed"),
                 {},
                 "run the job again: it resumes from the newest checkpoint"};
  }
  for (const wire::QuarantineMarker& answer : outcome.markers) {
    const Quarantine::Marker* marker = quarantine_.find(answer.batch);
    const bool quarantined =
        answer.passed || (marker != nullptr && marker->state == Quarantine::State::kQuarantined);
    if (!quarantined || (!answer.had && !answer.withdrawn)) continue;
    // This happens only if a ps that was replaced returns as the only holder of a partition.
    return Error{ErrorCode::kPeersLost,
                 str("batch ", answer.batch,
                     " was quarantined at some partitions, but applied at another one that did not "
                     "take part in the decision"),
                 pass_.train_range_text(answer.batch.shard_id()),
                 "run the job again: it resumes from the newest checkpoint"};
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
    if (batch.epoch == pass_.table().epoch() && batch.shard < pass_.table().shard_count() &&
        pass_.trains()) {
      pass_.table().forgive(batch.shard);
    }
    if (!quarantined) {
      turn.notice(
          NoticeLevel::kWarning,
          str("batch ", batch, " is not quarantined, because a partition has already applied it"));
      continue;
    }
    const std::string where = pass_.train_range_text(batch.shard_id());
    turn.notice(NoticeLevel::kWarning, str("batch ", batch, " of ", where,
                                           " is left out, and its records count as quarantined",
                                           decision.why.empty() ? "" : ": ", decision.why));
    decided_.push_back({batch, where, decision.why});
  }
  return {};
}

void QuarantinePolicy::drop_beyond(Turn& turn, ShardId shard, uint32_t batches) {
  const size_t dropped = std::erase_if(decided_, [&](const QuarantinedBatch& quarantined) {
    return quarantined.batch.shard_id() == shard && quarantined.batch.batch >= batches;
  });
  if (dropped == 0) return;
  turn.notice(NoticeLevel::kInfo,
              str("shard ", shard.epoch, "/", shard.shard, " has ", batches,
                  " batches, so quarantining a later one leaves out no record"));
}

}  // namespace downpour::chief
