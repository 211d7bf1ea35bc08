#include "chief/core/work/clocks.h"

#include <algorithm>

namespace downpour::chief {

Clocks::Clocks(const ChiefConfig& config)
    : staleness_(config.job.train.staleness),
      lease_ns_(config.lease_ns),
      stall_ns_(config.lease_stall_ns),
      learns_until_ns_(config.term > 1 && !config.local ? INT64_MAX : 0) {}

void Clocks::begin(int64_t now_ns) {
  if (learns_until_ns_ == INT64_MAX) raised_ns_ = learns_until_ns_ = now_ns + lease_ns_;
}

void Clocks::take(int64_t now_ns, Incarnation worker, const wire::Clock& clock) {
  if (!staleness_) return;
  if (now_ns < learns_until_ns_) floor_ = std::max(floor_, clock.floor);
  Worker& known = workers_[worker];
  known.clock = std::max(known.clock, std::min(clock.batches, floor_ + *staleness_ + 1));
  known.reported = true;
  known.report_ns = std::max(known.report_ns, clock.sent_ns);
}

wire::Floor Clocks::floor_for(Incarnation worker) const {
  const auto known = workers_.find(worker);
  return {.batches = floor_, .report_ns = known == workers_.end() ? 0 : known->second.report_ns};
}

void Clocks::start(Incarnation worker) {
  Worker& known = workers_[worker];
  known.clock = std::max(known.clock, floor_);
  known.reported = true;
}

void Clocks::pause(int64_t now_ns, Incarnation worker) {
  constexpr uint32_t kDoublingsMax = 6;
  Worker& known = workers_[worker];
  known.paused_until_ns = now_ns + (stall_ns_ << std::min(known.pauses++, kDoublingsMax));
}

bool Clocks::may_lease(int64_t now_ns, Incarnation worker) const {
  const auto known = workers_.find(worker);
  return known == workers_.end() || now_ns >= known->second.paused_until_ns;
}

std::optional<uint64_t> Clocks::raise(int64_t now_ns, const LeaseTable& table) {
  if (now_ns < learns_until_ns_) return std::nullopt;
  uint64_t lowest = UINT64_MAX;
  for (const auto& [worker, shards] : table.held()) {
    if (shards.empty()) continue;
    const auto known = workers_.find(worker);
    // The clock of a worker that an earlier chief has granted a lease is not known yet.
    const bool reported = known != workers_.end() && known->second.reported;
    lowest = std::min(lowest, reported ? std::max(known->second.clock, floor_) : floor_);
  }
  if (lowest == UINT64_MAX) raised_ns_ = now_ns;
  if (lowest == UINT64_MAX || lowest == floor_) return std::nullopt;
  raised_ns_ = now_ns;
  floor_ = lowest;
  return floor_;
}

std::vector<Incarnation> Clocks::slow(int64_t now_ns, const LeaseTable& table) {
  std::vector<Incarnation> found;
  if (!staleness_ || now_ns < learns_until_ns_ || now_ns - raised_ns_ <= stall_ns_) return found;
  bool others_wait = false;
  for (const auto& [worker, shards] : table.held()) {
    if (shards.empty()) continue;
    const Worker& known = workers_[worker];
    if (known.reported && known.clock > floor_) {
      others_wait = true;
    } else {
      found.push_back(worker);
    }
  }
  for (const Incarnation worker : found) {
    if (others_wait) pause(now_ns, worker);
  }
  raised_ns_ = now_ns;
  return found;
}

}  // namespace downpour::chief
