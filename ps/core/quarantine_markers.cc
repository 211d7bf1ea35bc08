#include "ps/core/quarantine_markers.h"

#include "shared/base/defence.h"

namespace downpour::ps {
namespace {

BatchId first_of(ShardId shard) { return {shard.epoch, shard.shard, 0}; }

void clear(Bits& bits, const Bits& parts) {
  for (size_t w = 0; w < bits.size(); ++w) bits[w] &= ~parts[w];
}

}  // namespace

bool QuarantineMarkers::concerns(ShardId shard) const {
  const auto at = entries_.lower_bound(first_of(shard));
  return at != entries_.end() && at->first.shard_id() == shard;
}

bool QuarantineMarkers::quarantines(BatchId batch, PartitionId p) const {
  const auto at = entries_.find(batch);
  return at != entries_.end() && quarantines(at->second, p);
}

uint32_t QuarantineMarkers::quarantined_count(ShardId shard, PartitionId p) const {
  uint32_t batches = 0;
  for (auto at = entries_.lower_bound(first_of(shard));
       at != entries_.end() && at->first.shard_id() == shard; ++at) {
    batches += quarantines(at->second, p) ? 1 : 0;
  }
  return batches;
}

QuarantineMarkers::Entry& QuarantineMarkers::entry(BatchId batch) {
  return entries_.try_emplace(batch, Entry{none_, none_, none_}).first->second;
}

bool QuarantineMarkers::take(const wire::QuarantineMarker& marker, PartitionId p, bool applied) {
  Entry& known = entry(marker.batch);
  const bool passed_without_gradient = quarantines(known, p) && applied;
  if (!contains(known.held, p)) {
    insert(known.held, p);
    if (applied) {
      defended(Defence::kPsMarkerLate);
      insert(known.had, p);
    }
  }
  if (!marker.withdrawn) return true;
  if (passed_without_gradient) return false;
  insert(known.withdrawn, p);
  return true;
}

void QuarantineMarkers::drop(const Bits& parts) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    clear(at->second.held, parts);
    clear(at->second.had, parts);
    clear(at->second.withdrawn, parts);
    at = none(at->second.held) ? entries_.erase(at) : std::next(at);
  }
}

void QuarantineMarkers::forget_below(uint32_t epoch) {
  entries_.erase(entries_.begin(), entries_.lower_bound({epoch, 0, 0}));
}

std::vector<wire::QuarantineMarker> QuarantineMarkers::of(PartitionId p,
                                                          uint32_t first_epoch) const {
  std::vector<wire::QuarantineMarker> markers;
  for (auto at = entries_.lower_bound({first_epoch, 0, 0}); at != entries_.end(); ++at) {
    const auto& [batch, entry] = *at;
    if (!contains(entry.held, p)) continue;
    markers.push_back({batch, contains(entry.withdrawn, p), contains(entry.had, p)});
  }
  return markers;
}

void QuarantineMarkers::import_from(const std::vector<wire::QuarantineMarker>& markers,
                                    PartitionId p, uint32_t first_epoch) {
  for (const wire::QuarantineMarker& marker : markers) {
    if (marker.batch.epoch < first_epoch) continue;
    Entry& known = entry(marker.batch);
    insert(known.held, p);
    if (marker.had) insert(known.had, p);
    if (marker.withdrawn) insert(known.withdrawn, p);
  }
}

}  // namespace downpour::ps
