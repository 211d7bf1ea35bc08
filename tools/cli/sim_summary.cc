#include "tools/cli/sim_summary.h"

#include <cstdint>
#include <cstdio>
#include <vector>

namespace downpour::tools {
namespace {

/// Returns a quantile of the staleness: the smallest number of versions by which at least this
/// share of the parts lags at most.
size_t staleness_at(const std::vector<uint64_t>& parts_by_lag, double share) {
  uint64_t all = 0;
  for (const uint64_t parts : parts_by_lag) all += parts;
  uint64_t sum = 0;
  for (size_t lag = 0; lag < parts_by_lag.size(); ++lag) {
    sum += parts_by_lag[lag];
    if (double(sum) >= share * double(all)) return lag;
  }
  return 0;
}

}  // namespace

void print_summary(const sim::Outcome& outcome, bool on_simulated_disk) {
  using Number = unsigned long long;
  const double seconds = double(outcome.virtual_ns) / 1e9;
  std::printf("simulated %.3f s of cluster time in %llu events, hash %016llx\n", seconds,
              static_cast<Number>(outcome.steps), static_cast<Number>(outcome.hash));
  if (!outcome.counts.empty()) std::printf("what happened:\n");
  for (const auto& [name, n] : outcome.counts)
    std::printf("  %-36s %8llu times\n", name.c_str(), static_cast<Number>(n));
  if (!outcome.finish) return;
  const chief::JobSummary& s = outcome.finish->summary;
  uint64_t applied = 0;
  for (const chief::EpochAccount& epoch : s.epochs) applied += epoch.counts.applied;
  std::printf("%llu records applied, %.0f records/s of cluster time\n",
              static_cast<Number>(applied), double(applied) / seconds);
  std::printf("recomputed: %llu records; %llu duplicate parts, %llu gaps, %u repeated leases\n",
              static_cast<Number>(s.records > applied ? s.records - applied : 0),
              static_cast<Number>(s.duplicate_parts), static_cast<Number>(s.gaps),
              s.attempts_repeated);
  std::printf("lost: %u workers, %u ps\n", s.workers_lost, s.ps_lost);
  std::printf("staleness: %zu versions (p50), %zu (p99)\n", staleness_at(s.staleness, 0.5),
              staleness_at(s.staleness, 0.99));
  if (on_simulated_disk) std::printf("the disk was simulated, too: this run left no files\n");
}

}  // namespace downpour::tools
