// ChiefCore: train.steps, with which a job may end inside an epoch. It ends between shards: no
// further shard is begun, and all begun shards are ended. So every partition holds the same partial
// epoch, its account balances, and a later run can resume from it.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

/// Returns the batches of the job that all partitions have applied, in the current epoch as far as
/// reported.
uint64_t ChiefCore::steps_done() const {
  const uint64_t steps = history_.steps_accounted();
  const bool counted =
      !history_.accounts().empty() && history_.accounts().back().epoch >= history_.epoch();
  if (counted || table_.purpose() != wire::Purpose::kTrain || table_.epoch() != history_.epoch())
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

}  // namespace downpour::chief
