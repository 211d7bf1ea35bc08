#include "ps/core/watermarks.h"

#include <algorithm>
#include <iterator>

namespace downpour::ps {
namespace {

constexpr size_t kSpareRowsMax = 16;

/// Whether some partition has begun the shard and not ended it. Only then the row holds more than
/// the ended sets of the epoch.
bool in_use(const ShardRow& row) {
  return std::any_of(row.watermarks.begin(), row.watermarks.end(),
                     [](uint32_t w) { return w != 0 && w != wire::kShardEnded; });
}

}  // namespace

Watermarks::Watermarks(uint32_t partition_count, const PsLimits& limits)
    : partition_count_(partition_count), limits_(limits) {}

const ShardRow* Watermarks::find(ShardId shard) const {
  const auto epoch = epochs_.find(shard.epoch);
  if (epoch == epochs_.end()) return nullptr;
  const auto row = epoch->second.rows.find(shard.shard);
  return row == epoch->second.rows.end() ? nullptr : row->second.get();
}

uint32_t Watermarks::watermark(ShardId shard, PartitionId p) const {
  const auto epoch = epochs_.find(shard.epoch);
  if (epoch == epochs_.end()) return 0;
  const auto row = epoch->second.rows.find(shard.shard);
  if (row != epoch->second.rows.end()) return row->second->watermarks[raw(p)];
  return epoch->second.sums[raw(p)].ended.contains(shard.shard) ? wire::kShardEnded : 0;
}

Result<void> Watermarks::room_for(ShardId shard, const Bits& parts, bool end, PeerKey from) const {
  const auto full = [](const char* what, uint64_t limit) {
    return Error{ErrorCode::kUnavailable, str("more than ", limit, ' ', what)};
  };
  const auto epoch = epochs_.find(shard.epoch);
  if (epoch == epochs_.end() && epochs_.size() >= limits_.epochs_open_max) {
    return full("unsealed epochs", limits_.epochs_open_max);
  }
  if (!end && find(shard) == nullptr) {
    constexpr uint64_t kPartBytes = sizeof(uint32_t) + 2 * sizeof(uint64_t);
    const uint64_t most = std::min<uint64_t>(
        limits_.shards_open_max, limits_.shards_open_bytes_max / (kPartBytes * partition_count_));
    if (row_count_ >= most) return full("open shards", most);
    const auto own = begun_by_.find(from);
    if (own != begun_by_.end() && own->second >= limits_.shards_open_per_peer_max) {
      return full("open shards of one worker", limits_.shards_open_per_peer_max);
    }
  }
  if (end && epoch != epochs_.end()) {
    bool fits = true;
    for_each(parts, [&](PartitionId p) {
      fits = fits && epoch->second.sums[raw(p)].ended.intervals().size() < limits_.intervals_max;
    });
    if (!fits) return full("gaps between the ended shards of an epoch", limits_.intervals_max);
  }
  return {};
}

void Watermarks::advance(BatchId batch, const Bits& parts, uint64_t records, uint64_t records_hash,
                         PeerKey from) {
  ShardRow& row = open_row(open_epoch(batch.epoch), batch.shard, from);
  uint32_t* const watermarks = row.watermarks.data();
  uint64_t* const sums = row.records.data();
  uint64_t* const hashes = row.hashes.data();
  for_each_word(parts, partition_count_, [&](uint32_t begin, uint32_t end, uint64_t word) {
    for (uint32_t p = begin; p < end; ++p) watermarks[p] += uint32_t(lane(word, begin, p));
    for (uint32_t p = begin; p < end; ++p) sums[p] += records & (0 - lane(word, begin, p));
    for (uint32_t p = begin; p < end; ++p) hashes[p] += records_hash & (0 - lane(word, begin, p));
  });
}

void Watermarks::end(ShardId shard, const Bits& parts, const wire::ShardCounts& counts,
                     uint64_t records_hash) {
  Epoch& epoch = open_epoch(shard.epoch);
  for_each(parts, [&](PartitionId p) {
    epoch.sums[raw(p)].ended.insert(shard.shard);
    epoch.sums[raw(p)].counts += counts;
    epoch.sums[raw(p)].records_hash += records_hash;
  });
  const Row row = epoch.rows.find(shard.shard);
  if (row == epoch.rows.end()) return;
  for_each(parts, [&](PartitionId p) { row->second->watermarks[raw(p)] = wire::kShardEnded; });
  if (!in_use(*row->second)) erase_row(epoch, row);
}

void Watermarks::add_metrics(uint32_t epoch, PartitionId p,
                             const std::vector<OutputSums>& metrics) {
  std::vector<OutputSums>& sums = open_epoch(epoch).sums[raw(p)].metrics;
  if (sums.size() < metrics.size()) sums.resize(metrics.size());
  for (size_t i = 0; i < metrics.size(); ++i) sums[i] += metrics[i];
}

void Watermarks::drop(const Bits& parts) {
  for (auto& [number, epoch] : epochs_) {
    for_each(parts, [&](PartitionId p) { epoch.sums[raw(p)] = {}; });
    for (Row row = epoch.rows.begin(); row != epoch.rows.end();) {
      for_each(parts, [&](PartitionId p) {
        row->second->watermarks[raw(p)] = 0;
        row->second->records[raw(p)] = 0;
        row->second->hashes[raw(p)] = 0;
      });
      row = in_use(*row->second) ? std::next(row) : erase_row(epoch, row);
    }
  }
}

void Watermarks::forget_below(uint32_t number) {
  while (!epochs_.empty() && epochs_.begin()->first < number) {
    Epoch& epoch = epochs_.begin()->second;
    for (Row row = epoch.rows.begin(); row != epoch.rows.end();) row = erase_row(epoch, row);
    epochs_.erase(epochs_.begin());
  }
}

void Watermarks::export_to(PartitionId p, uint32_t first_epoch,
                           checkpoint::PartitionImage& image) const {
  for (auto it = epochs_.lower_bound(first_epoch); it != epochs_.end(); ++it) {
    const auto& [number, epoch] = *it;
    const Sums& sums = epoch.sums[raw(p)];
    if (sums.ended.size() > 0 || !sums.metrics.empty()) {
      image.epochs.push_back({.epoch = number,
                              .shards_ended = uint32_t(sums.ended.size()),
                              .counts = sums.counts,
                              .metrics = sums.metrics,
                              .ended = sums.ended.intervals(),
                              .records_hash = sums.known_hash()});
    }
    for (const auto& [shard, row] : epoch.rows) {
      const uint32_t watermark = row->watermarks[raw(p)];
      if (watermark == 0 || watermark == wire::kShardEnded) continue;
      image.shards.push_back({.shard = {number, shard},
                              .watermark = watermark,
                              .ended = false,
                              .records = row->records[raw(p)],
                              .records_hash = row->hashes[raw(p)],
                              .counts = {}});
    }
  }
}

Result<void> Watermarks::check(const checkpoint::PartitionImage& image,
                               uint32_t first_epoch) const {
  const auto bad = [&](const auto&... what) {
    return Error{ErrorCode::kBadData, str("image of partition ", image.partition, ": ", what...)};
  };
  std::vector<uint32_t> epochs;
  for (size_t i = 0; i < image.epochs.size(); ++i) {
    const checkpoint::EpochImage& epoch = image.epochs[i];
    if (i > 0 && epoch.epoch <= image.epochs[i - 1].epoch) return bad("epochs do not ascend");
    if (epoch.metrics.size() > limits_.outputs_max) return bad("too many metrics");
    if (epoch.ended.size() > limits_.intervals_max) return bad("too many intervals");
    IntervalSet ended;
    if (!ended.assign(epoch.ended))
      return bad("invalid list of ended shards of epoch ", epoch.epoch + 1);
    if (ended.size() != epoch.shards_ended) return bad("wrong count of ended shards");
    if (epoch.epoch >= first_epoch) epochs.push_back(epoch.epoch);
  }
  if (image.shards.size() > limits_.shards_open_max) return bad("too many open shards");
  if (image.markers.size() > limits_.markers_max) return bad("too many quarantined batches");
  for (size_t i = 0; i < image.shards.size(); ++i) {
    const checkpoint::ShardImage& shard = image.shards[i];
    if (i > 0 && shard.shard <= image.shards[i - 1].shard) return bad("shards do not ascend");
    if (shard.ended || shard.watermark == 0 || shard.watermark == wire::kShardEnded) {
      return bad("shard ", shard.shard, " has no valid watermark");
    }
    for (const checkpoint::EpochImage& epoch : image.epochs) {
      IntervalSet ended;
      if (epoch.epoch == shard.shard.epoch && ended.assign(epoch.ended) &&
          ended.contains(shard.shard.shard)) {
        return bad("shard ", shard.shard, " is both open and ended");
      }
    }
    if (shard.shard.epoch >= first_epoch) epochs.push_back(shard.shard.epoch);
  }
  std::sort(epochs.begin(), epochs.end());
  epochs.erase(std::unique(epochs.begin(), epochs.end()), epochs.end());
  size_t fresh = 0;
  for (const uint32_t epoch : epochs) fresh += epochs_.contains(epoch) ? 0 : 1;
  if (epochs_.size() + fresh > limits_.epochs_open_max) return bad("too many unsealed epochs");
  return {};
}

void Watermarks::import_from(const checkpoint::PartitionImage& image, uint32_t first_epoch) {
  const uint32_t p = raw(image.partition);
  for (const checkpoint::EpochImage& from : image.epochs) {
    if (from.epoch < first_epoch) continue;
    Epoch& epoch = open_epoch(from.epoch);
    Sums& sums = epoch.sums[p];
    DP_CHECK(sums.ended.assign(from.ended), image.partition, from.epoch);
    sums.counts = from.counts;
    sums.metrics = from.metrics;
    sums.records_hash = from.records_hash;
    sums.hash_known = from.records_hash != 0 || from.counts.applied == 0;
    for (auto& [shard, row] : epoch.rows) {
      if (sums.ended.contains(shard)) row->watermarks[p] = wire::kShardEnded;
    }
  }
  for (const checkpoint::ShardImage& from : image.shards) {
    if (from.shard.epoch < first_epoch) continue;
    ShardRow& row = open_row(open_epoch(from.shard.epoch), from.shard.shard, kChiefPeer);
    row.watermarks[p] = from.watermark;
    row.records[p] = from.records;
    row.hashes[p] = from.records_hash;
  }
}

const Watermarks::Sums* Watermarks::sums(uint32_t epoch, PartitionId p) const {
  const auto it = epochs_.find(epoch);
  return it == epochs_.end() ? nullptr : &it->second.sums[raw(p)];
}

std::vector<wire::ShardWatermark> Watermarks::open(uint32_t number, const Bits& parts) const {
  std::vector<wire::ShardWatermark> open;
  const auto epoch = epochs_.find(number);
  if (epoch == epochs_.end()) return open;
  for (const auto& [shard, row] : epoch->second.rows) {
    uint32_t smallest = wire::kShardEnded;
    for_each(parts, [&](PartitionId p) { smallest = std::min(smallest, row->watermarks[raw(p)]); });
    if (smallest != wire::kShardEnded) open.push_back({shard, smallest});
  }
  return open;
}

Watermarks::Epoch& Watermarks::open_epoch(uint32_t number) {
  Epoch& epoch = epochs_[number];
  if (epoch.sums.empty()) epoch.sums.resize(partition_count_);
  return epoch;
}

ShardRow& Watermarks::open_row(Epoch& epoch, uint32_t shard, PeerKey from) {
  std::unique_ptr<ShardRow>& row = epoch.rows[shard];
  if (row != nullptr) return *row;
  ++row_count_;
  if (from != kChiefPeer) ++begun_by_[from];
  if (spare_.empty()) {
    row = std::make_unique<ShardRow>();
    row->watermarks.resize(partition_count_);
    row->records.resize(partition_count_);
    row->hashes.resize(partition_count_);
  } else {
    row = std::move(spare_.back());
    spare_.pop_back();
  }
  row->begun_by = from;
  for (uint32_t p = 0; p < partition_count_; ++p) {
    if (epoch.sums[p].ended.contains(shard)) row->watermarks[p] = wire::kShardEnded;
  }
  return *row;
}

Watermarks::Row Watermarks::erase_row(Epoch& epoch, Row row) {
  --row_count_;
  if (const auto own = begun_by_.find(row->second->begun_by); own != begun_by_.end()) {
    if (--own->second == 0) begun_by_.erase(own);
  }
  if (spare_.size() < kSpareRowsMax) {
    std::fill(row->second->watermarks.begin(), row->second->watermarks.end(), 0U);
    std::fill(row->second->records.begin(), row->second->records.end(), 0U);
    std::fill(row->second->hashes.begin(), row->second->hashes.end(), 0U);
    spare_.push_back(std::move(row->second));
  }
  return epoch.rows.erase(row);
}

}  // namespace downpour::ps
