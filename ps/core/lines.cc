#include "ps/core/lines.h"

#include "shared/base/defence.h"

namespace downpour::ps {
namespace {

BatchId first_of(ShardId shard) { return {shard.epoch, shard.shard, 0}; }

void clear(Bits& bits, const Bits& parts) {
  for (size_t w = 0; w < bits.size(); ++w) bits[w] &= ~parts[w];
}

}  // namespace

bool Lines::concerns(ShardId shard) const {
  const auto at = entries_.lower_bound(first_of(shard));
  return at != entries_.end() && at->first.shard_id() == shard;
}

bool Lines::gives_up(BatchId batch, PartitionId p) const {
  const auto at = entries_.find(batch);
  return at != entries_.end() && gives_up(at->second, p);
}

uint32_t Lines::given_up(ShardId shard, PartitionId p) const {
  uint32_t batches = 0;
  for (auto at = entries_.lower_bound(first_of(shard));
       at != entries_.end() && at->first.shard_id() == shard; ++at) {
    batches += gives_up(at->second, p) ? 1 : 0;
  }
  return batches;
}

Lines::Entry& Lines::entry(BatchId batch) {
  return entries_.try_emplace(batch, Entry{none_, none_, none_}).first->second;
}

bool Lines::take(const wire::QuarantineLine& line, PartitionId p, bool applied) {
  Entry& known = entry(line.batch);
  const bool passed_without_gradient = gives_up(known, p) && applied;
  if (!contains(known.held, p)) {
    insert(known.held, p);
    if (applied) {
      defended(Defence::kPsMarkerLate);
      insert(known.had, p);
    }
  }
  if (!line.withdrawn) return true;
  if (passed_without_gradient) return false;
  insert(known.withdrawn, p);
  return true;
}

void Lines::drop(const Bits& parts) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    clear(at->second.held, parts);
    clear(at->second.had, parts);
    clear(at->second.withdrawn, parts);
    at = none(at->second.held) ? entries_.erase(at) : std::next(at);
  }
}

void Lines::forget_below(uint32_t epoch) {
  entries_.erase(entries_.begin(), entries_.lower_bound({epoch, 0, 0}));
}

std::vector<wire::QuarantineLine> Lines::of(PartitionId p, uint32_t first_epoch) const {
  std::vector<wire::QuarantineLine> lines;
  for (auto at = entries_.lower_bound({first_epoch, 0, 0}); at != entries_.end(); ++at) {
    const auto& [batch, entry] = *at;
    if (!contains(entry.held, p)) continue;
    lines.push_back({batch, contains(entry.withdrawn, p), contains(entry.had, p)});
  }
  return lines;
}

void Lines::import_from(const std::vector<wire::QuarantineLine>& lines, PartitionId p,
                        uint32_t first_epoch) {
  for (const wire::QuarantineLine& line : lines) {
    if (line.batch.epoch < first_epoch) continue;
    Entry& known = entry(line.batch);
    insert(known.held, p);
    if (line.had) insert(known.had, p);
    if (line.withdrawn) insert(known.withdrawn, p);
  }
}

}  // namespace downpour::ps
