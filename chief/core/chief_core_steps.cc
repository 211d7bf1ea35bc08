// ChiefCore: train.steps, where a job ends inside an epoch. It ends between shards: no other one is
// begun, and those that are in workers' hands are brought to their end. So what is trained is whole
// at every partition, has an account that balances, and a run may go on from it.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

/// Batches of the epochs that have an account.
uint64_t ChiefCore::steps_accounted() const {
  uint64_t steps = 0;
  for (const EpochAccount& account : epochs_) steps += account.counts.batches;
  return steps;
}

/// Batches of the whole job that all partitions have: of the running epoch as far as it was told.
uint64_t ChiefCore::steps_done() const {
  const uint64_t steps = steps_accounted();
  const bool counted = !epochs_.empty() && epochs_.back().epoch >= epoch_;
  if (counted || table_.purpose() != wire::Purpose::kTrain || table_.epoch() != epoch_)
    return steps;
  return steps + epoch_steps_ + table_.batches_acked() - epoch_acked_;
}

/// Whether shards that nobody has begun are leased: not once what is in workers' hands is enough.
/// How much that is is known once a shard has ended: before, one at a time is begun.
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

/// Whether all that was begun of the epoch has ended, and no more is wanted of it.
bool ChiefCore::partial_epoch_is_read() const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || table_.all_ended() || table_.leased_count() > 0) return false;
  if (steps_done() < wanted) return false;
  // A worker may hold a lease of an earlier chief, and have sent nothing yet. (The images prove it;
  // to wait only spares one that would be in vain.)
  if (claimed_ && now_ns_ - start_ns_ < config_.lease_ns) return false;
  return !table_.begun_is_free();
}

/// Whether the job ends with what a round has found of the epoch: as many steps as it asks for, and
/// no shard begun that has not ended.
bool ChiefCore::ends_here(const RoundOutcome& outcome) const {
  const uint64_t wanted = config_.job.train.steps;
  if (wanted == 0 || outcome.partitions.empty()) return false;
  return steps_accounted() + outcome.partitions.front().counts.batches >= wanted &&
         std::none_of(outcome.lacking.begin(), outcome.lacking.end(),
                      [](const LackingShard& shard) { return shard.begun; });
}

/// An image holds something of the epoch that its account does not: a worker of which nobody here
/// knew (a former chief's, that lay still) has gone on with a shard. That is brought to its end,
/// too.
void ChiefCore::reopen_partial_epoch(const Member& member) {
  defended(Defence::kChiefPartialEpochReopened);
  log(event("part_reopened").add("n", saving_.id.n).add("who", member.name()));
  saving_.end();
  reconcile();
}

/// Training goes on in the epoch of which a part was the job's end: more steps are wanted, or a
/// partition has lost something of it.
void ChiefCore::drop_partial_epoch() {
  if (!std::exchange(partial_epoch_, false)) return;
  partial_epoch_saved_ = false;
  epochs_.pop_back();
  std::erase_if(evaluations_,
                [&](const Evaluation& e) { return e.epochs_trained > epochs_complete_; });
  epochs_resumed_ = std::min(epochs_resumed_, uint32_t(epochs_.size()));
}

}  // namespace downpour::chief
