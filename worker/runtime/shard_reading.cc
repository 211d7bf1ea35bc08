#include "worker/runtime/shard_reading.h"

#include <algorithm>
#include <utility>

namespace downpour::worker {

Result<void> ShardReading::open() {
  const bool train = task_.lease.purpose == wire::Purpose::kTrain;
  const size_t count = train ? options_.train_shards.count() : options_.eval_ranges.size();
  const uint32_t place = task_.lease.shard.shard;
  if (place >= count) {
    return Error{ErrorCode::kBug, str("shard ", place, " of ", count, " was leased")};
  }
  std::vector<plan::ShardRange> ranges =
      train ? options_.train_shards.at(task_.lease.shard.epoch, place)
            : std::vector{options_.eval_ranges[place]};
  const data::Part part =
      train ? (options_.train->holdout > 0 ? data::Part::kTrain : data::Part::kAll)
            : (options_.eval_held_out ? data::Part::kHeldOut : data::Part::kAll);
  const auto& plan = train                                            ? options_.train
                     : task_.lease.purpose == wire::Purpose::kPredict ? options_.predict
                                                                      : options_.eval;
  joined_ = ranges.size() > 1;
  place_ = joined_ ? plan::text_of(ranges, plan->files) : plan->files[ranges[0].file].path;
  DP_TRY(reader_, data::open_shard(plan, part, task_.lease.shard, std::move(ranges),
                                   task_.first_batch, task_.lease.given_up));
  return {};
}

ReadItem ShardReading::failed(Error error) const {
  std::optional<uint32_t> batch;
  if (reader_ != nullptr) batch = reader_->failed_batch();
  return {.reading = task_.reading,
          .failure = ReadFailure{task_.reading, std::move(error), batch},
          .last = true};
}

ReadItem ShardReading::next(PreparedBatchPtr fresh, std::shared_ptr<const Placements> placements) {
  if (reader_ == nullptr) {
    if (auto opened = open(); !opened) return failed(std::move(opened).error());
  }
  auto more = reader_->next(fresh->batch);
  if (!more) return failed(std::move(more).error());
  if (!*more) return end();
  fresh->lease = task_.lease;
  fresh->reading = task_.reading;
  fresh->where = joined_ ? place_
                         : str(place_, ", records that start in bytes [", fresh->batch.first_record,
                               ", ", fresh->batch.last_record, "]");
  offset_ = std::max(offset_, fresh->batch.end_offset);
  if (placements && !fresh->batch.given_up) {
    fresh->plan =
        make_pull_plan(options_.tables, std::move(placements), wire::kFrameBytesMax, fresh->batch);
  }
  const bool last = ++given_ == task_.batches_max;
  return {.reading = task_.reading, .batch = std::move(fresh), .last = last};
}

ReadItem ShardReading::end() const {
  const data::ShardTotals& totals = reader_->totals();
  ShardEnd end{.reading = task_.reading, .counts = {}, .records_hash = totals.records_hash};
  end.counts = {.batches = totals.batches,
                .read = totals.counts.read,
                .applied = totals.counts.read - totals.counts.filtered - totals.counts.skipped -
                           totals.counts.dropped - totals.counts.quarantined,
                .filtered = totals.counts.filtered,
                .skipped = totals.counts.skipped,
                .dropped = totals.counts.dropped,
                .quarantined = totals.counts.quarantined,
                .first_offset = totals.first_offset,
                .end_offset = totals.end_offset};
  return {.reading = task_.reading, .batch = {}, .end = std::move(end), .last = true};
}

}  // namespace downpour::worker
