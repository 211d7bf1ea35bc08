// LeaseTable: the shards of each replica of synchronous training.
#include <algorithm>
#include <utility>

#include "chief/core/work/leases.h"

namespace downpour::chief {

void LeaseTable::split_among_replicas(uint32_t count) {
  std::vector<uint32_t> replica_of(entries_.size());
  for (uint32_t shard = 0; shard < replica_of.size(); ++shard) replica_of[shard] = shard % count;
  split_among_replicas(count, replica_of);
}

void LeaseTable::split_among_replicas(uint32_t count, const std::vector<uint32_t>& replica_of) {
  split(count, replica_of);
  replicas_ = count;
  for (uint32_t shard = 0; shard < replica_of.size(); ++shard)
    streams_[replica_of[shard]].shards.push_back(shard);
}

void LeaseTable::share_among_replicas(uint32_t count) {
  split(count + 1, std::vector<uint32_t>(entries_.size(), count));
  replicas_ = count;
}

size_t LeaseTable::undealt_count() const {
  if (!shares_among_replicas()) return 0;
  const std::set<uint32_t>& undealt = streams_[replicas_].free;
  if (!closed_) return undealt.size();
  return size_t(std::ranges::count_if(undealt, [&](uint32_t shard) { return is_begun(shard); }));
}

/// Gives the replica the lowest shard that no replica has and that may be leased now.
void LeaseTable::deal(uint32_t replica) {
  const uint32_t shard = *next_of(streams_[replicas_]);
  streams_[replicas_].free.erase(shard);
  Stream& stream = streams_[replica];
  stream.free.insert(shard);
  stream.shards.insert(std::ranges::lower_bound(stream.shards, shard), shard);
  stream.open = 0;
  stream_of_[shard] = replica;
}

std::optional<uint32_t> LeaseTable::first_open_of(uint32_t replica) const {
  const Stream& stream = streams_[replica];
  size_t& open = stream.open;
  while (open < stream.shards.size() && entries_[stream.shards[open]].state == ShardState::kEnded)
    ++open;
  for (size_t i = open; i < stream.shards.size(); ++i) {
    const uint32_t shard = stream.shards[i];
    if (entries_[shard].state == ShardState::kEnded) continue;
    if (!closed_ || is_begun(shard)) return shard;
  }
  return std::nullopt;
}

std::vector<uint32_t> LeaseTable::leased_of(uint32_t replica) const {
  std::vector<uint32_t> leased;
  if (streams_[replica].leased == 0) return leased;
  for (const uint32_t shard : streams_[replica].shards) {
    if (entries_[shard].state == ShardState::kLeased) leased.push_back(shard);
  }
  return leased;
}

uint32_t LeaseTable::active_replicas() const {
  uint32_t open = 0;
  for (uint32_t replica = 0; replica < replicas_; ++replica) open += first_open_of(replica) ? 1 : 0;
  return open + uint32_t(std::min<size_t>(undealt_count(), replicas_ - open));
}

void LeaseTable::give_away(int64_t now_ns, uint32_t replica) {
  Stream& stream = streams_[replica];
  stream.given_away_by = std::exchange(stream.worker, std::nullopt);
  stream.waits_since_ns = now_ns;
}

/// Returns whether a worker that holds `held` replicas may take one that no worker holds.
bool LeaseTable::may_take(const Stream& stream, int64_t now_ns, Incarnation worker, uint32_t held,
                          uint32_t replicas_max) const {
  if (stream.waits_long(now_ns)) return true;
  if (!stream.given_away_by) return held < replicas_max;
  return worker != stream.given_away_by && held <= replicas_max;
}

/// Returns whether a replica that gets its shards one by one cannot get another one.
bool LeaseTable::is_done(uint32_t replica) const {
  return shares_among_replicas() && undealt_count() == 0 && !first_open_of(replica);
}

uint32_t LeaseTable::others_above(uint32_t count, Incarnation worker) const {
  std::map<Incarnation, uint32_t> held;
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    const std::optional<Incarnation> holder = streams_[replica].worker;
    if (holder && holder != worker && !is_done(replica)) ++held[*holder];
  }
  return uint32_t(
      std::ranges::count_if(held, [&](const auto& each) { return each.second > count; }));
}

bool LeaseTable::has_suspects() const {
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    const std::optional<uint32_t> first = first_open_of(replica);
    if (first && entries_[*first].failures > 0) return true;
  }
  return false;
}

std::optional<wire::Lease> LeaseTable::grant_of_replica(int64_t now_ns, Incarnation worker,
                                                        uint32_t replicas_max, bool ahead) {
  const size_t undealt = undealt_count();
  uint32_t held = 0;
  for (uint32_t replica = 0; replica < replicas_; ++replica)
    held += streams_[replica].worker == worker && !is_done(replica) ? 1 : 0;
  std::optional<uint32_t> own, unheld, later;
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    Stream& stream = streams_[replica];
    const std::optional<uint32_t> first = first_open_of(replica);
    const std::optional<uint32_t> next = next_of(stream);
    if (!next && undealt == 0) continue;
    const bool begins = !first || entries_[*first].state == ShardState::kFree;
    if (stream.worker == worker && begins) {
      if (held > replicas_max && stream.leased == 0) {
        stream.worker.reset();
        return std::nullopt;
      }
      if (!own) own = replica;
    } else if (stream.worker == worker) {
      // Near the end of the pass the last shards go to the replicas that need them first.
      const bool has_next = next ? entries_[*next].failures == 0 : undealt > replicas_;
      if (ahead && !later && has_next && stream.leased == 1 && held <= replicas_max)
        later = replica;
    } else if (begins && !stream.worker) {
      if (!stream.waits_since_ns) stream.waits_since_ns = now_ns;
      if (!unheld && may_take(stream, now_ns, worker, held, replicas_max)) unheld = replica;
    }
  }
  const std::optional<uint32_t> chosen = own ? own : unheld ? unheld : later;
  if (!chosen) return std::nullopt;
  Stream& stream = streams_[*chosen];
  stream.waits_since_ns.reset();
  stream.given_away_by.reset();
  if (!next_of(stream)) deal(*chosen);
  const uint32_t shard = *next_of(stream);
  take_free(shard);
  begin_lease(shard);
  return lease_of(shard, hand_out(now_ns, shard, worker));
}

std::vector<uint32_t> LeaseTable::neglected(int64_t now_ns) {
  std::vector<uint32_t> shards;
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    Stream& stream = streams_[replica];
    const std::optional<uint32_t> first = first_open_of(replica);
    const bool waits = first ? entries_[*first].state == ShardState::kFree : undealt_count() > 0;
    if (!waits) {
      stream.waits_since_ns.reset();
      continue;
    }
    if (!stream.worker) continue;
    if (!stream.waits_since_ns) stream.waits_since_ns = now_ns;
    if (!stream.waits_long(now_ns)) continue;
    if (stream.leased == 0) stream.worker.reset();
    const std::vector<uint32_t> leased = leased_of(replica);
    shards.insert(shards.end(), leased.begin(), leased.end());
  }
  return shards;
}

}  // namespace downpour::chief
