#include "chief/core/work/leases.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace downpour::chief {

LeaseTable::LeaseTable(const wire::Lease& pattern, uint32_t shard_count)
    : pattern_(pattern), entries_(shard_count) {
  std::set<uint32_t>& free = streams_[0].free;
  for (uint32_t shard = 0; shard < shard_count; ++shard) free.insert(free.end(), shard);
  free_count_ = shard_count;
}

void LeaseTable::split(uint32_t count, const std::vector<uint32_t>& stream_of) {
  DP_CHECK(granted_ == 0 && free_count_ == stream_of.size(), granted_, stream_of.size());
  stream_of_ = stream_of;
  streams_.assign(count, {});
  for (uint32_t shard = 0; shard < stream_of.size(); ++shard) {
    std::set<uint32_t>& free = streams_[stream_of[shard]].free;
    free.insert(free.end(), shard);
  }
}

std::optional<uint32_t> LeaseTable::next_of(const Stream& stream) const {
  const auto next = std::ranges::find_if(
      stream.free, [&](uint32_t shard) { return !closed_ || is_begun(shard); });
  return next == stream.free.end() ? std::nullopt : std::optional(*next);
}

void LeaseTable::grow(uint32_t count) {
  DP_CHECK(streams_.size() == 1 || replicas_ > 0, streams_.size());
  const bool in_turn = replicas_ > 0 && !shares_among_replicas();
  const auto first = uint32_t(entries_.size());
  entries_.resize(first + size_t{count});
  if (!shared()) stream_of_.resize(entries_.size(), shares_among_replicas() ? replicas_ : 0);
  for (uint32_t shard = first; shard < entries_.size(); ++shard) {
    if (in_turn) {
      stream_of_[shard] = shard % replicas_;
      stream_of(shard).shards.push_back(shard);
    }
    std::set<uint32_t>& free = stream_of(shard).free;
    free.insert(free.end(), shard);
  }
  free_count_ += count;
}

uint32_t LeaseTable::fewest_free() const {
  if (replicas_ == 0 || shares_among_replicas()) return UINT32_MAX;
  size_t fewest = SIZE_MAX;
  for (const Stream& stream : streams_) fewest = std::min(fewest, stream.free.size());
  return uint32_t(fewest);
}

void LeaseTable::share(bool with_all) {
  if (replicas_ > 0 || with_all == shared()) return;
  DP_CHECK(streams_.size() == 1, streams_.size());
  streams_[0].worker.reset();
  stream_of_.assign(with_all ? 0 : entries_.size(), 0);
}

LeaseTable::Stream* LeaseTable::choose_stream(Incarnation worker, uint32_t index, bool fresh) {
  if (shared()) return &streams_[0];
  const auto with_work = [&](const Stream& stream) {
    return std::any_of(stream.free.begin(), stream.free.end(),
                       [&](uint32_t shard) { return fresh || is_begun(shard); });
  };
  for (Stream& stream : streams_) {
    if (stream.worker == worker && with_work(stream)) return &stream;
  }
  if (held_count(worker) > 0) return nullptr;
  Stream& own = streams_[index % streams_.size()];
  if (!own.worker && with_work(own)) return &own;
  for (Stream& stream : streams_) {
    if (!stream.worker && with_work(stream)) return &stream;
  }
  return nullptr;
}

std::optional<wire::Lease> LeaseTable::grant(int64_t now_ns, Incarnation worker, uint32_t limit,
                                             uint32_t index, bool suspects, bool fresh) {
  if (!fresh && !begun_is_free()) return std::nullopt;
  const Stream* const stream = choose_stream(worker, index, fresh);
  if (stream == nullptr) return std::nullopt;
  const auto is_suspect = [&](uint32_t shard) { return entries_[shard].failures > 0; };
  const auto first = std::find_if(stream->free.begin(), stream->free.end(), [&](uint32_t shard) {
    return (fresh || is_begun(shard)) && (suspects || !shared() || !is_suspect(shard));
  });
  if (first == stream->free.end() || *first >= limit) return std::nullopt;
  const uint32_t shard = *first;
  if (!suspects && is_suspect(shard)) return std::nullopt;  // streams are read in order
  take_free(shard);
  begin_lease(shard);
  return lease_of(shard, hand_out(now_ns, shard, worker));
}

bool LeaseTable::take_up(int64_t now_ns, Incarnation worker, const wire::Lease& lease) {
  if (!covers(lease)) return false;
  const uint32_t shard = lease.shard.shard;
  ShardEntry& entry = entries_[shard];
  if (entry.state != ShardState::kFree || entry.attempt > 0) return false;
  take_free(shard);
  begin_lease(shard);
  entry.attempt = std::max(1U, lease.attempt) - 1;
  hand_out(now_ns, shard, worker);
  return true;
}

wire::Lease LeaseTable::back_up(int64_t now_ns, uint32_t shard, Incarnation worker) {
  const ShardEntry& entry = entries_[shard];
  DP_CHECK(entry.state == ShardState::kLeased && entry.holders.size() < kHoldersMax, shard);
  DP_CHECK(holder(shard, worker) == nullptr, shard);
  ++backups_;
  return lease_of(shard, hand_out(now_ns, shard, worker));
}

Holder& LeaseTable::hand_out(int64_t now_ns, uint32_t shard, Incarnation worker) {
  ShardEntry& entry = entries_[shard];
  held_[worker].insert(shard);
  if (replicas_ == 0) entry.begun = true;
  if (!shared()) stream_of(shard).worker = worker;
  if (++entry.attempt > 1) ++attempts_repeated_;
  // Batches that every partition has acknowledged need not be computed again. An evaluation always
  // covers whole shards.
  const bool resumes = pattern_.purpose == wire::Purpose::kTrain;
  const uint32_t first_batch =
      resumes ? std::max(entry.first_batch, entry.batches_acked) : entry.first_batch;
  entry.holders.push_back({.worker = worker,
                           .attempt = entry.attempt,
                           .first_batch = first_batch,
                           .batches_acked = first_batch,
                           .bytes_done = first_batch > 0 ? entry.bytes_done : 0,
                           .granted_order = ++granted_,
                           .granted_ns = now_ns,
                           .heard_ns = now_ns,
                           .moved_ns = now_ns});
  return entry.holders.back();
}

bool LeaseTable::covers(const wire::Lease& lease) const {
  return lease.purpose == pattern_.purpose && lease.shard.epoch == pattern_.shard.epoch &&
         lease.evaluation == pattern_.evaluation && lease.shard.shard < entries_.size();
}

bool LeaseTable::holds(Incarnation worker, const wire::Lease& lease) const {
  if (!covers(lease)) return false;
  const Holder* held = holder(lease.shard.shard, worker);
  return held != nullptr && lease.attempt <= held->attempt;
}

bool LeaseTable::is_newest(Incarnation worker, const wire::Lease& lease) const {
  return holds(worker, lease) && lease.attempt == holder(lease.shard.shard, worker)->attempt;
}

const Holder* LeaseTable::holder(uint32_t shard, Incarnation worker) const {
  for (const Holder& holder : entries_[shard].holders) {
    if (holder.worker == worker) return &holder;
  }
  return nullptr;
}

wire::Lease LeaseTable::lease_of(uint32_t shard, const Holder& holder) const {
  wire::Lease lease = pattern_;
  lease.shard.shard = shard;
  lease.attempt = holder.attempt;
  lease.first_batch = holder.first_batch;
  if (replicas_ > 0) lease.replica = stream_of_[shard];
  return lease;
}

void LeaseTable::renew(int64_t now_ns, uint32_t shard, Incarnation worker, uint32_t batches_acked,
                       uint64_t bytes_done) {
  ShardEntry& entry = entries_[shard];
  for (Holder& holder : entry.holders) {
    if (holder.worker != worker) continue;
    holder.heard_ns = now_ns;
    holder.bytes_done = std::max(holder.bytes_done, bytes_done);
    if (batches_acked > holder.batches_acked) {
      holder.batches_acked = batches_acked;
      holder.moved_ns = now_ns;
    }
  }
  entry.bytes_done = std::max(entry.bytes_done, bytes_done);
  if (batches_acked > entry.batches_acked) {
    count_acked(entry, batches_acked);
    entry.failures = 0;
  }
}

void LeaseTable::count_acked(ShardEntry& entry, uint32_t batches) {
  if (batches <= entry.batches_acked) return;
  batches_acked_ += batches - entry.batches_acked;
  entry.batches_acked = batches;
}

bool LeaseTable::end(uint32_t shard) {
  ShardEntry& entry = entries_[shard];
  if (entry.state == ShardState::kEnded) return false;
  while (!entry.holders.empty()) leave_holder(shard, entry.holders.back().worker);
  take_free(shard);
  entry.state = ShardState::kEnded;
  ++ended_count_;
  return true;
}

bool LeaseTable::end(uint32_t shard, const wire::ShardCounts& counts) {
  if (!end(shard)) return false;
  count_acked(entries_[shard], counts.batches);
  entries_[shard].counts = counts;
  entries_[shard].has_counts = true;
  return true;
}

void LeaseTable::reopen(uint32_t shard, uint32_t first_batch) {
  ShardEntry& entry = entries_[shard];
  entry.first_batch = entry.batches_acked = first_batch;
  entry.bytes_done = 0;
  for (Holder& holder : entry.holders) holder.batches_acked = first_batch;
  // All partitions are at the same step, which may be an earlier one. mark_begun() follows.
  if (replicas_ > 0 && std::exchange(entry.begun, false) && entry.state == ShardState::kFree)
    --begun_free_count_;
  if (entry.state != ShardState::kEnded) return;
  --ended_count_;
  first_open_ = std::min(first_open_, shard);
  if (replicas_ > 0) stream_of(shard).open = 0;
  make_free(shard);
}

void LeaseTable::release(uint32_t shard, Incarnation worker) {
  if (holder(shard, worker) == nullptr) return;
  leave_holder(shard, worker);
  if (entries_[shard].holders.empty()) make_free(shard);
  if (replicas_ > 0 && stream_of(shard).leased == 0)
    stream_of(shard).worker.reset();  // any worker may continue it
  if (held_count(worker) == 0) leave(worker);
}

void LeaseTable::leave(Incarnation worker) {
  for (Stream& stream : streams_) {
    if (stream.worker == worker) stream.worker.reset();
  }
}

uint32_t LeaseTable::fail(uint32_t shard, Incarnation worker, uint32_t batch) {
  release(shard, worker);
  entries_[shard].failed_batch = batch;
  return ++entries_[shard].failures;
}

std::vector<uint32_t> LeaseTable::held_by(Incarnation worker) const {
  const auto it = held_.find(worker);
  if (it == held_.end()) return {};
  std::vector<uint32_t> shards(it->second.begin(), it->second.end());
  std::sort(shards.begin(), shards.end(), [&](uint32_t a, uint32_t b) {
    return holder(a, worker)->granted_order < holder(b, worker)->granted_order;
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
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  return shards;
}

std::vector<LeaseTable::Held> LeaseTable::idle(int64_t since_ns, int64_t moved_since_ns,
                                               bool in_order) const {
  std::vector<Held> idle;
  const auto moved = [&](uint32_t shard) {
    const std::vector<Holder>& holders = entries_[shard].holders;
    return std::any_of(holders.begin(), holders.end(),
                       [&](const Holder& holder) { return holder.moved_ns >= moved_since_ns; });
  };
  // Leases of a stream wait for each other.
  const std::vector<uint32_t> all = leased();
  if (in_order && std::any_of(all.begin(), all.end(), moved)) moved_since_ns = INT64_MIN;
  for (const uint32_t shard : all) {
    for (const Holder& holder : entries_[shard].holders) {
      if (holder.heard_ns < since_ns || holder.moved_ns < moved_since_ns) {
        idle.push_back({shard, holder.worker});
      }
    }
  }
  return idle;
}

void LeaseTable::mark_begun(uint32_t shard) {
  ShardEntry& entry = entries_[shard];
  if (!std::exchange(entry.begun, true) && entry.state == ShardState::kFree) ++begun_free_count_;
}

uint32_t LeaseTable::first_open() const {
  while (first_open_ < entries_.size() && entries_[first_open_].state == ShardState::kEnded)
    ++first_open_;
  return first_open_;
}

void LeaseTable::leave_holder(uint32_t shard, Incarnation worker) {
  const auto it = held_.find(worker);
  DP_CHECK(it != held_.end() && it->second.erase(shard) == 1, shard);
  if (it->second.empty()) held_.erase(it);
  ShardEntry& entry = entries_[shard];
  std::erase_if(entry.holders, [&](const Holder& holder) { return holder.worker == worker; });
  if (!entry.holders.empty()) return;
  --leased_count_;
  --stream_of(shard).leased;
}

void LeaseTable::begin_lease(uint32_t shard) {
  ++leased_count_;
  ++stream_of(shard).leased;
  entries_[shard].state = ShardState::kLeased;
}

void LeaseTable::make_free(uint32_t shard) {
  entries_[shard].state = ShardState::kFree;
  if (pattern_.purpose != wire::Purpose::kTrain) entries_[shard].bytes_done = 0;
  if (!stream_of(shard).free.insert(shard).second) return;
  ++free_count_;
  if (is_begun(shard)) ++begun_free_count_;
}

/// Removes the shard from the free ones. Returns false if it was not free.
bool LeaseTable::take_free(uint32_t shard) {
  if (stream_of(shard).free.erase(shard) == 0) return false;
  --free_count_;
  if (is_begun(shard)) --begun_free_count_;
  return true;
}

}  // namespace downpour::chief
