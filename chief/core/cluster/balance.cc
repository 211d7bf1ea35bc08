#include "chief/core/cluster/balance.h"

#include <algorithm>
#include <numeric>

namespace downpour::chief {
namespace {

constexpr double kRowBytes = 64;     // cost of a row lookup, as bytes transferred
constexpr double kKept = 0.6;        // weight of the older reports, with each new one
constexpr uint32_t kReportsMin = 3;  // includes the first one, which is ignored
constexpr double kAim = 0.9;         // share of the difference to move, because measurements lag

double sum_of(const CoreWork& core) {
  return std::accumulate(core.partitions.begin(), core.partitions.end(), 0.0,
                         [](double sum, const CoreWork::Share& share) { return sum + share.work; });
}

/// Returns the busy time per unit of work. It is high for a slow machine.
std::optional<double> cost_of(const CoreWork& core) {
  const double work = sum_of(core);
  if (work <= 0 || core.busy <= 0) return std::nullopt;
  return core.busy / work;
}

}  // namespace

std::optional<Offload> choose_offload(std::span<const CoreWork> cores,
                                      const OffloadLimits& limits) {
  if (cores.size() < 2) return std::nullopt;
  Offload offload;
  size_t count = 0;
  for (size_t i = 0; i < cores.size(); ++i) {
    if (cores[i].busy > cores[offload.source].busy) offload.source = i;
    if (cores[i].busy < cores[offload.target].busy) offload.target = i;
    count += cores[i].partitions.size();
  }
  const CoreWork &source = cores[offload.source], &target = cores[offload.target];
  const double apart = source.busy - target.busy;
  const auto cost = cost_of(source);
  if (source.busy < limits.busy_min || apart < limits.apart_min || !cost) return std::nullopt;
  const size_t keeps = (count + 2 * cores.size() - 1) / (2 * cores.size());
  if (source.partitions.size() <= keeps) return std::nullopt;
  size_t room = std::min<size_t>(limits.partitions_max, source.partitions.size() - keeps);
  // Work to move so that both are equally busy. A unit of work costs each core its own time.
  double left = kAim * apart / (*cost + cost_of(target).value_or(*cost));
  std::vector<CoreWork::Share> shares = source.partitions;
  std::sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) {
    return a.work != b.work ? a.work > b.work : a.partition < b.partition;
  });
  double gain = 0;
  for (const CoreWork::Share& share : shares) {
    if (room == 0 || share.work <= 0) break;
    if (share.work > left) continue;  // moving it would only make the target the busiest core
    left -= share.work;
    gain += share.work * *cost;
    offload.partitions.push_back(share.partition);
    --room;
  }
  if (gain < limits.gain_min) return std::nullopt;
  return offload;
}

void WorkReports::take(PsKey key, const wire::Heartbeat& heartbeat) {
  if (heartbeat.load_ns <= 0) return;
  Core& core = cores_[key];
  changed_ = true;
  if (++core.reports == 1) return;
  core.elapsed_ns = kKept * core.elapsed_ns + double(heartbeat.load_ns);
  core.busy_ns = kKept * core.busy_ns + double(heartbeat.busy_ns);
  for (auto& [partition, work] : core.work) work *= kKept;
  for (const wire::PartitionLoad& load : heartbeat.loads)
    core.work[load.partition] += double(load.bytes) + kRowBytes * double(load.rows);
}

std::optional<CoreWork> WorkReports::work(PsKey key) const {
  const auto at = cores_.find(key);
  if (at == cores_.end() || at->second.reports < kReportsMin) return std::nullopt;
  const Core& core = at->second;
  CoreWork work{.busy = std::min(1.0, core.busy_ns / core.elapsed_ns), .partitions = {}};
  for (const auto& [partition, bytes] : core.work)
    work.partitions.push_back({partition, bytes * 1e9 / core.elapsed_ns});
  return work;
}

}  // namespace downpour::chief
