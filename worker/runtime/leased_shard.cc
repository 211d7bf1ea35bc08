#include "worker/runtime/leased_shard.h"

#include <utility>

#include "shared/base/str.h"

namespace downpour::worker {

std::string LeasedShard::place() const {
  return is_joined() ? plan::text_of(ranges, plan->files) : plan->files[ranges[0].file].path;
}

Result<LeasedShard> find_leased(const ReaderOptions& options, const wire::Lease& lease) {
  const bool train = lease.purpose == wire::Purpose::kTrain;
  const size_t count = train ? options.train_shards.count() : options.eval_ranges.size();
  const uint32_t place = lease.shard.shard;
  if (place >= count) {
    return Error{ErrorCode::kBug,
                 str("shard ", place, " of ", count, " was leased: the number is out of range")};
  }
  LeasedShard shard;
  shard.ranges = train ? options.train_shards.at(lease.shard.epoch, place)
                       : std::vector{options.eval_ranges[place]};
  shard.split = train ? (options.train->holdout > 0 ? data::Split::kTrain : data::Split::kAll)
                      : (options.eval_held_out ? data::Split::kHeldOut : data::Split::kAll);
  shard.plan = train                                      ? options.train
               : lease.purpose == wire::Purpose::kPredict ? options.predict
                                                          : options.eval;
  return shard;
}

Result<std::unique_ptr<data::ShardReader>> open_leased(const LeasedShard& shard,
                                                       const wire::Lease& lease,
                                                       uint32_t first_batch) {
  return data::open_shard(shard.plan, shard.split, lease.shard, shard.ranges, first_batch,
                          lease.quarantined_batches);
}

wire::ShardCounts counts_of(const data::ShardTotals& totals) {
  return {.batches = totals.batches,
          .read = totals.counts.read,
          .applied = totals.counts.read - totals.counts.filtered - totals.counts.skipped -
                     totals.counts.dropped - totals.counts.quarantined,
          .filtered = totals.counts.filtered,
          .skipped = totals.counts.skipped,
          .dropped = totals.counts.dropped,
          .quarantined = totals.counts.quarantined,
          .first_offset = totals.first_offset,
          .end_offset = totals.end_offset};
}

data::ShardTotals totals_of(const wire::ShardCounts& counts, uint64_t records_hash) {
  return {.counts = {.read = counts.read,
                     .filtered = counts.filtered,
                     .skipped = counts.skipped,
                     .dropped = counts.dropped,
                     .quarantined = counts.quarantined},
          .batches = counts.batches,
          .first_offset = counts.first_offset,
          .end_offset = counts.end_offset,
          .records_hash = records_hash};
}

}  // namespace downpour::worker
