// ChiefCore: train.steps, with which a job may end inside an epoch. It ends between shards: no
// further shard is begun, and all begun shards are ended. So every partition holds the same partial
// epoch, its account balances, and a later run can resume from it.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

/// Returns the batches of all epochs that have an account.
uint64_t ChiefCore::steps_accounted() const {
  uint64_t steps = 0;
  for (const EpochAccount& account : epochs_) steps += account.counts.batches;
  return steps;
}

/// Returns the batches of the job that all partitions have applied, in the current epoch as far as
/// reported.
uint64_t ChiefCore::steps_done() const {
  const uint64_t steps = steps_accounted();
  const bool counted = !epochs_.empty() && epochs_.back().epoch >= epoch_;
  if (counted || table_.purpose() != wire::Purpose::kTrain || table_.epoch() != epoch_)
    return steps;
  return steps + epoch_steps_ + table_.batches_acked() - epoch_acked_;
}

/// Returns true if shards that were not begun may be leased. They may not if the leased shards will
/// reach `train.steps`. The batches of a shard are known when one has ended; until then only one
/// shard at a time is begun.
bool ChiefCore::may_begin_shards() const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || table_.purpose() != wire::Purpose::kTrain) return true;
  if (shard_batches_longest_ == 0 && table_.leased_count() > 0) return false;
  uint64_t steps = steps_done();
  for (const uint32_t shard : table_.leased()) {
    const uint64_t acked = table_.entry(shard).batches_acked;
    steps += shard_batches_longest_ - std::min<uint64_t>(shard_batches_longest_, acked);
  }
  return steps < wanted;
}

/// Returns true if every shard that was begun has ended, and the epoch needs no further shard.
bool ChiefCore::partial_epoch_is_read(const Turn& turn) const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || table_.all_ended() || table_.leased_count() > 0) return false;
  if (steps_done() < wanted) return false;
  // A worker may hold a lease of an earlier chief and not have reported it yet. The images would
  // reveal that; the wait only avoids a checkpoint that must be repeated.
  if (claimed_ && turn.now_ns() - turn.start_ns() < config_.lease_ns) return false;
  return !table_.begun_is_free();
}

/// Returns true if the job ends with the state that a round has found: enough steps, and every
/// shard that was begun has ended.
bool ChiefCore::ends_here(const RoundOutcome& outcome) const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || outcome.partitions.empty()) return false;
  return steps_accounted() + outcome.partitions.front().counts.batches >= wanted &&
         std::none_of(outcome.lacking.begin(), outcome.lacking.end(),
                      [](const LackingShard& shard) { return shard.begun; });
}

/// Reopens the partial epoch, because an image holds a shard that the account lacks. A worker that
/// this chief does not know, for example with a lease of an earlier chief, has continued. That
/// shard must end, too.
void ChiefCore::reopen_partial_epoch(Turn& turn, const Member& member) {
  defended(Defence::kChiefPartialEpochReopened);
  turn.log(turn.event("part_reopened").add("n", saving_.id.n).add("who", member.name()));
  saving_.end();
  reconcile(turn);
}

/// Drops the account of a partial epoch, because more steps are wanted or a partition was restored.
void ChiefCore::drop_partial_epoch() {
  if (!std::exchange(partial_epoch_, false)) return;
  partial_epoch_saved_ = false;
  epochs_.pop_back();
  std::erase_if(evaluations_,
                [&](const Evaluation& e) { return e.epochs_trained > epochs_complete_; });
  epochs_resumed_ = std::min(epochs_resumed_, uint32_t(epochs_.size()));
}

}  // namespace downpour::chief
