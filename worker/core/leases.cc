#include "worker/core/leases.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"
#include "worker/core/output_metrics.h"

namespace downpour::worker {
namespace {

constexpr int64_t kRetryMaxNs = 10 * kSecond;  // limit, whatever a LeaseGrant says

}  // namespace

uint32_t Leases::reading_count() const {
  return uint32_t(
      std::count_if(shards_.begin(), shards_.end(), [](const auto& s) { return !s->end; }));
}

void Leases::request(int64_t now_ns, WorkerEffects& fx) {
  if (!session_.configured() || !session_.placements() || session_.stopping() ||
      request_ != RequestId{})
    return;
  const uint32_t count = reading_count();
  if (count >= wanted_ || now_ns < deadline_ns_) return;
  request_ = requests_.next();
  request_wanted_ = wanted_ - count;
  deadline_ns_ = now_ns + requests_.backoff_ns(0);
  session_.send(kChief, wire::LeaseRequest{request_wanted_}, request_, fx);
}

bool Leases::accept(int64_t now_ns, RequestId request, const wire::LeaseGrant& grant) {
  if (request != request_) {
    defended(Defence::kWorkerGrantLate);
    return false;
  }
  request_ = RequestId{};
  deadline_ns_ =
      now_ns + (grant.leases.empty() ? std::clamp(grant.retry_ns, kMillisecond, kRetryMaxNs) : 0);
  return true;
}

bool Leases::renew(const wire::Lease& lease) {
  Shard* held = find(lease);
  if (held == nullptr || held->lease.quarantined_batches != lease.quarantined_batches ||
      held->lease.single_step != lease.single_step ||
      held->lease.rate_reductions != lease.rate_reductions)
    return false;
  defended(Defence::kWorkerGrantSame);
  held->lease.attempt = std::max(held->lease.attempt, lease.attempt);
  return true;
}

Leases::Shard* Leases::find(const wire::Lease& lease) {
  for (auto& shard : shards_) {
    if (same_work(shard->lease, lease)) return shard.get();
  }
  return nullptr;
}

Leases::Shard* Leases::find_read(uint64_t shard_read) {
  for (auto& shard : shards_) {
    if (shard->shard_read == shard_read) return shard.get();
  }
  return nullptr;
}

const Leases::Shard* Leases::before(const Shard& shard) const {
  const Shard* found = nullptr;
  for (const std::unique_ptr<Shard>& other : shards_) {
    const wire::Lease& lease = other->lease;
    if (lease.purpose != wire::Purpose::kTrain || lease.replica != shard.lease.replica) continue;
    if (!(lease.shard < shard.lease.shard)) continue;
    if (found == nullptr || found->lease.shard < lease.shard) found = other.get();
  }
  return found;
}

void Leases::begin(int64_t now_ns, const wire::Lease& lease, WorkerEffects& fx) {
  auto shard = std::make_unique<Shard>();
  shard->lease = lease;
  shard->next_push = shard->done = shard->floor = lease.first_batch;
  shard->progress_at_ns = now_ns;
  shards_.push_back(std::move(shard));
  read(*shards_.back(), lease.first_batch, fx);
}

bool Leases::drop(const wire::Lease& lease, WorkerEffects& fx) {
  const auto same = [&](const auto& item) { return same_work(item->lease, lease); };
  const auto held = std::find_if(shards_.begin(), shards_.end(), same);
  if (held == shards_.end()) return false;
  fx.stops.push_back({(*held)->shard_read});
  std::erase_if(shards_, same);
  return true;
}

void Leases::remove(const Shard& shard) {
  std::erase_if(shards_, [&](const auto& s) { return s.get() == &shard; });
}

void Leases::read(Shard& shard, uint32_t first_batch, WorkerEffects& fx) {
  shard.shard_read = ++last_shard_read_;
  fx.reads.push_back(
      {shard.lease, first_batch, shard.shard_read, shard.lease.single_step ? 1 : UINT32_MAX});
}

void Leases::read_on(int64_t now_ns, Shard& shard, WorkerEffects& fx) {
  if (!shard.lease.single_step || shard.end) return;
  // If every partition has the end of the shard, only reading it shows how many batches it has.
  if (shard.floor != wire::kShardEnded) {
    shard.done = shard.next_push = std::max(shard.done, shard.floor);
  }
  report_progress(now_ns, shard, false, fx);
  read(shard, std::max(shard.done, shard.floor), fx);
}

void Leases::report_progress(int64_t now_ns, Shard& shard, bool ended, WorkerEffects& fx) {
  shard.progress_at_ns = now_ns;
  wire::ShardProgress report{.lease = shard.lease,
                             .batches_acked = shard.done,
                             .ended = ended,
                             .bytes_done = shard.bytes_done};
  if (shard.end_sent) report.counts = shard.end->counts;
  session_.report(std::move(report), fx);
}

Leases::Shard* Leases::finish_if_done(ShardId id, wire::Purpose purpose, WorkerEffects& fx) {
  const auto at = std::find_if(shards_.begin(), shards_.end(), [&](const auto& s) {
    return s->lease.shard == id && s->lease.purpose == purpose;
  });
  if (at == shards_.end()) return nullptr;
  Shard& shard = **at;
  // If first_batch of the lease is beyond the end of the shard, only the shard-end marker is left.
  if (!shard.end || shard.done < shard.end->counts.batches || shard.end_sent) return nullptr;
  if (purpose == wire::Purpose::kTrain) {
    shard.end_sent = true;
    return &shard;
  }
  if (purpose == wire::Purpose::kEval) {
    limit_buckets(shard.metrics);
    limit_buckets(shard.slices, kSliceBucketsMax);
    session_.report(wire::EvalReport{.lease = shard.lease,
                                     .counts = shard.end->counts,
                                     .outputs = std::move(shard.metrics),
                                     .slices = std::move(shard.slices)},
                    fx);
  } else {
    session_.report(wire::PredictReport{.lease = shard.lease,
                                        .batch = shard.end->counts.batches,
                                        .ended = true,
                                        .counts = shard.end->counts},
                    fx);
  }
  shards_.erase(at);
  return nullptr;
}

void Leases::on_tick(int64_t now_ns, WorkerEffects& fx) {
  if (request_ != RequestId{} &&
      now_ns >= deadline_ns_) {  // the same request id: the chief repeats its grant
    deadline_ns_ = now_ns + requests_.backoff_ns(1);
    session_.send(kChief, wire::LeaseRequest{request_wanted_}, request_, fx);
  }
  request(now_ns, fx);
  for (auto& shard : shards_) {
    if (now_ns - shard->progress_at_ns >= session_.welcome().heartbeat_ns)
      report_progress(now_ns, *shard, false, fx);
  }
}

int64_t Leases::next_deadline_ns() const {
  const bool may_request = session_.configured() && session_.placements() && deadline_ns_ > 0;
  const bool due = request_ != RequestId{} || reading_count() < wanted_;
  return may_request && due ? deadline_ns_ : INT64_MAX;
}

}  // namespace downpour::worker
