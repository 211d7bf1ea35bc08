#include "chief/core/work/stragglers.h"

#include <algorithm>
#include <limits>

namespace downpour::chief {

void WorkerPaces::busy(int64_t now_ns, Incarnation worker) {
  const auto [it, fresh] = paces_.try_emplace(worker, Pace{.since_ns = now_ns});
  Pace& pace = it->second;
  if (fresh || pace.idle_ns < 0) return;
  pace.since_ns += now_ns - pace.idle_ns;
  pace.idle_ns = -1;
}

void WorkerPaces::idle(int64_t now_ns, Incarnation worker) {
  const auto it = paces_.find(worker);
  if (it != paces_.end() && it->second.idle_ns < 0) it->second.idle_ns = now_ns;
}

void WorkerPaces::advanced(int64_t now_ns, Incarnation worker, uint64_t bytes) {
  Pace& pace = paces_.try_emplace(worker, Pace{.since_ns = now_ns}).first->second;
  pace.bytes += double(bytes);
  if (pace.idle_ns >= 0 || now_ns - pace.since_ns < 2 * kMemoryNs) return;
  pace.bytes *= double(kMemoryNs) / double(now_ns - pace.since_ns);
  pace.since_ns = now_ns - kMemoryNs;
}

bool WorkerPaces::measured(int64_t now_ns, const Pace& pace) {
  return (pace.idle_ns < 0 ? now_ns : pace.idle_ns) - pace.since_ns >= kMeasureNs;
}

double WorkerPaces::rate_of(int64_t now_ns, const Pace& pace) {
  return pace.bytes / double((pace.idle_ns < 0 ? now_ns : pace.idle_ns) - pace.since_ns);
}

std::optional<double> WorkerPaces::rate(int64_t now_ns, Incarnation worker) const {
  const auto it = paces_.find(worker);
  if (it == paces_.end() || !measured(now_ns, it->second)) return std::nullopt;
  return rate_of(now_ns, it->second);
}

double WorkerPaces::total(int64_t now_ns) const {
  double sum = 0;
  for (const auto& [worker, pace] : paces_) {
    if (measured(now_ns, pace)) sum += rate_of(now_ns, pace);
  }
  return sum;
}

double WorkerPaces::mean(int64_t now_ns) const {
  const auto count = std::count_if(paces_.begin(), paces_.end(), [&](const auto& entry) {
    return measured(now_ns, entry.second);
  });
  return count == 0 ? 0 : total(now_ns) / double(count);
}

namespace {

uint64_t bytes_left(const PassView& pass, uint32_t shard, Incarnation worker) {
  const uint64_t bytes = pass.bytes_of(shard);
  return bytes - std::min(bytes, pass.table.holder(shard, worker)->bytes_done);
}

uint64_t bytes_in_hand(const PassView& pass, Incarnation worker) {
  uint64_t bytes = 0;
  for (const uint32_t shard : pass.table.held_by(worker)) bytes += bytes_left(pass, shard, worker);
  return bytes;
}

double time_for(uint64_t bytes, double rate) {
  return rate > 0 ? double(bytes) / rate : std::numeric_limits<double>::max();
}

}  // namespace

std::optional<uint32_t> choose_backup(const PassView& pass, Incarnation asker) {
  const double mean = pass.paces.mean(pass.now_ns);
  const double asker_rate = pass.paces.rate(pass.now_ns, asker).value_or(mean);
  if (asker_rate <= 0) return std::nullopt;
  const uint64_t asker_bytes = bytes_in_hand(pass, asker);
  std::optional<uint32_t> chosen;
  double longest = 0;
  for (const auto& [worker, held] : pass.table.held()) {
    if (worker == asker) continue;
    const double rate = pass.paces.rate(pass.now_ns, worker).value_or(mean);
    // Bytes before the end of the shard: a worker processes its shards in the order of their
    // leases.
    uint64_t ahead = 0;
    for (const uint32_t shard : pass.table.held_by(worker)) {
      ahead += bytes_left(pass, shard, worker);
      if (pass.table.entry(shard).holders.size() >= kHoldersMax) continue;
      const double needs = time_for(ahead, rate);
      // A backup lease reads the shard from its start, even if it skips batches.
      const double asker_needs = time_for(asker_bytes + pass.bytes_of(shard), asker_rate);
      if (needs <= 2 * asker_needs || needs <= longest) continue;
      longest = needs;
      chosen = shard;
    }
  }
  return chosen;
}

bool may_hold_more(const PassView& pass, Incarnation worker, uint64_t bytes_left) {
  const uint32_t held = pass.table.held_count(worker);
  const auto rate = pass.paces.rate(pass.now_ns, worker);
  if (held == 0 || !rate) return true;
  const uint64_t in_hand = bytes_in_hand(pass, worker);
  uint64_t of_held = 0;
  for (const uint32_t shard : pass.table.held_by(worker)) of_held += pass.bytes_of(shard);
  const double all_need = time_for(bytes_left, pass.paces.total(pass.now_ns));
  return time_for(in_hand + of_held / held, *rate) <= all_need;
}

}  // namespace downpour::chief
