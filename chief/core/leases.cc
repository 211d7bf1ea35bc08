#include "chief/core/leases.h"

#include <algorithm>

#include "shared/base/check.h"

namespace downpour::chief {

LeaseTable::LeaseTable(const wire::Lease& pattern, uint32_t shard_count)
    : pattern_(pattern), entries_(shard_count) {
  for (uint32_t shard = 0; shard < shard_count; ++shard) free_.insert(free_.end(), shard);
}

std::optional<wire::Lease> LeaseTable::grant(int64_t now_ns, Incarnation worker, uint32_t limit) {
  if (free_.empty() || *free_.begin() >= limit) return std::nullopt;
  const uint32_t shard = *free_.begin();
  free_.erase(free_.begin());
  held_[worker].insert(shard);
  ++leased_count_;
  ShardEntry& entry = entries_[shard];
  entry.state = ShardState::kLeased;
  entry.holder = worker;
  if (++entry.attempt > 1) ++attempts_repeated_;
  entry.granted_order = ++granted_;
  entry.heard_ns = now_ns;
  entry.moved_ns = now_ns;
  return lease_of(shard);
}

bool LeaseTable::covers(const wire::Lease& lease) const {
  return lease.purpose == pattern_.purpose && lease.shard.epoch == pattern_.shard.epoch &&
         lease.evaluation == pattern_.evaluation && lease.shard.shard < entries_.size();
}

bool LeaseTable::holds(Incarnation worker, const wire::Lease& lease) const {
  if (!covers(lease)) return false;
  const ShardEntry& entry = entries_[lease.shard.shard];
  return entry.state == ShardState::kLeased && entry.holder == worker &&
         lease.attempt <= entry.attempt;
}

std::optional<wire::Lease> LeaseTable::current(uint32_t shard) const {
  if (entries_[shard].state != ShardState::kLeased) return std::nullopt;
  return lease_of(shard);
}

void LeaseTable::renew(int64_t now_ns, uint32_t shard, uint32_t batches_acked,
                       uint64_t bytes_done) {
  ShardEntry& entry = entries_[shard];
  entry.heard_ns = now_ns;
  entry.bytes_done = std::max(entry.bytes_done, bytes_done);
  if (batches_acked > entry.batches_acked) {
    entry.batches_acked = batches_acked;
    entry.moved_ns = now_ns;
    entry.failures = 0;
  }
}

bool LeaseTable::end(uint32_t shard) {
  ShardEntry& entry = entries_[shard];
  if (entry.state == ShardState::kEnded) return false;
  if (entry.state == ShardState::kLeased) leave_holder(shard);
  free_.erase(shard);
  entry.state = ShardState::kEnded;
  ++ended_count_;
  return true;
}

bool LeaseTable::end(uint32_t shard, const wire::ShardCounts& counts) {
  if (!end(shard)) return false;
  entries_[shard].counts = counts;
  entries_[shard].has_counts = true;
  return true;
}

void LeaseTable::reopen(uint32_t shard, uint32_t first_batch) {
  ShardEntry& entry = entries_[shard];
  entry.first_batch = first_batch;
  if (entry.state != ShardState::kEnded) return;
  --ended_count_;
  first_open_ = std::min(first_open_, shard);
  make_free(shard);
}

void LeaseTable::release(uint32_t shard) {
  if (entries_[shard].state != ShardState::kLeased) return;
  leave_holder(shard);
  make_free(shard);
}

uint32_t LeaseTable::fail(uint32_t shard, uint32_t batch) {
  release(shard);
  entries_[shard].failed_batch = batch;
  return ++entries_[shard].failures;
}

std::vector<uint32_t> LeaseTable::held_by(Incarnation worker) const {
  const auto it = held_.find(worker);
  if (it == held_.end()) return {};
  std::vector<uint32_t> shards(it->second.begin(), it->second.end());
  std::sort(shards.begin(), shards.end(), [&](uint32_t a, uint32_t b) {
    return entries_[a].granted_order < entries_[b].granted_order;
  });
  return shards;
}

uint32_t LeaseTable::held_count(Incarnation worker) const {
  const auto it = held_.find(worker);
  return it == held_.end() ? 0 : uint32_t(it->second.size());
}

std::vector<uint32_t> LeaseTable::leased() const {
  std::vector<uint32_t> shards;
  for (const auto& [worker, held] : held_) shards.insert(shards.end(), held.begin(), held.end());
  std::sort(shards.begin(), shards.end());
  return shards;
}

std::vector<uint32_t> LeaseTable::idle(int64_t since_ns, int64_t moved_since_ns) const {
  std::vector<uint32_t> shards = leased();
  std::erase_if(shards, [&](uint32_t shard) {
    return entries_[shard].heard_ns >= since_ns && entries_[shard].moved_ns >= moved_since_ns;
  });
  return shards;
}

uint32_t LeaseTable::first_open() const {
  while (first_open_ < entries_.size() && entries_[first_open_].state == ShardState::kEnded)
    ++first_open_;
  return first_open_;
}

wire::Lease LeaseTable::lease_of(uint32_t shard) const {
  wire::Lease lease = pattern_;
  lease.shard.shard = shard;
  lease.attempt = entries_[shard].attempt;
  lease.first_batch = entries_[shard].first_batch;
  return lease;
}

void LeaseTable::leave_holder(uint32_t shard) {
  const auto it = held_.find(entries_[shard].holder);
  DP_CHECK(it != held_.end() && it->second.erase(shard) == 1, shard);
  if (it->second.empty()) held_.erase(it);
  --leased_count_;
}

void LeaseTable::make_free(uint32_t shard) {
  entries_[shard].state = ShardState::kFree;
  entries_[shard].holder = Incarnation{};
  entries_[shard].bytes_done = 0;
  free_.insert(shard);
}

}  // namespace downpour::chief
