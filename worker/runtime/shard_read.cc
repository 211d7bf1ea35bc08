#include "worker/runtime/shard_read.h"

#include <algorithm>
#include <utility>

namespace downpour::worker {

Result<void> ShardRead::open() {
  DP_TRY(LeasedShard shard, find_leased(options_, task_.lease));
  joined_ = shard.is_joined();
  place_ = shard.place();
  if (remote_.inputs != nullptr && remote_.inputs->in_use()) {
    auto reader = std::make_unique<RemoteReader>(remote_, std::move(shard), task_.lease,
                                                 task_.first_batch, task_.batches_max);
    elsewhere_ = reader.get();
    reader_ = std::move(reader);
    return {};
  }
  DP_TRY(reader_, open_leased(shard, task_.lease, task_.first_batch));
  return {};
}

ReadItem ShardRead::failed(Error error) const {
  std::optional<uint32_t> batch;
  if (reader_ != nullptr) batch = reader_->failed_batch();
  return {.shard_read = task_.shard_read,
          .failure = ReadFailure{task_.shard_read, std::move(error), batch},
          .last = true};
}

ReadItem ShardRead::next(PreparedBatchPtr fresh, std::shared_ptr<const Placements> placements) {
  if (reader_ == nullptr) {
    if (auto opened = open(); !opened) return failed(std::move(opened).error());
  }
  auto more = reader_->next(fresh->batch);
  return item_of(std::move(more), std::move(fresh), std::move(placements));
}

std::optional<ReadItem> ShardRead::poll(const PreparedBatchPtr& fresh,
                                        std::shared_ptr<const Placements> placements) {
  if (reader_ == nullptr) {
    if (auto opened = open(); !opened) return failed(std::move(opened).error());
  }
  if (elsewhere_ == nullptr) return next(fresh, std::move(placements));
  const Result<std::optional<bool>> more = elsewhere_->poll(fresh->batch, 0);
  if (!more) return failed(more.error());
  if (!*more) return std::nullopt;
  return item_of(**more, fresh, std::move(placements));
}

ReadItem ShardRead::item_of(Result<bool> more, PreparedBatchPtr fresh,
                            std::shared_ptr<const Placements> placements) {
  if (!more) return failed(std::move(more).error());
  if (!*more) return end();
  fresh->lease = task_.lease;
  fresh->shard_read = task_.shard_read;
  fresh->where = joined_ ? place_
                         : str(place_, ", records that start in bytes [", fresh->batch.first_record,
                               ", ", fresh->batch.last_record, "]");
  if (elsewhere_ == nullptr || elsewhere_->reads_here())
    offset_ = std::max(offset_, fresh->batch.end_offset);
  if (placements && !fresh->batch.quarantined) {
    fresh->plan = make_pull_plan(options_.tables, std::move(placements), options_.message_bytes_max,
                                 fresh->batch);
  }
  const bool last = ++given_ == task_.batches_max;
  return {.shard_read = task_.shard_read, .batch = std::move(fresh), .last = last};
}

ReadItem ShardRead::end() {
  const data::ShardTotals& totals = reader_->totals();
  offset_ = std::max(offset_, totals.bytes);  // includes what follows the last batch
  return {.shard_read = task_.shard_read,
          .batch = {},
          .end = ShardEnd{.shard_read = task_.shard_read,
                          .counts = counts_of(totals),
                          .records_hash = totals.records_hash},
          .last = true};
}

}  // namespace downpour::worker
