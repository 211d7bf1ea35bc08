#include "tools/sim/simulator.h"

#include <algorithm>
#include <functional>
#include <map>

#include "chief/runtime/learn.h"
#include "chief/runtime/slices.h"
#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/job/job_file.h"
#include "tools/sim/checkers.h"
#include "tools/sim/world.h"

namespace downpour::sim {

namespace {

/// Returns a random key that occurs in only one record.
std::optional<uint64_t> rare_key(const Oracle& oracle, Rng& rng) {
  const auto& partition = oracle.by_partition()[rng.below(oracle.by_partition().size())];
  std::vector<uint64_t> rare;
  for (const Oracle::Row& row : partition)
    if (row.uses.size() <= oracle.epochs()) rare.push_back(row.key);
  if (rare.empty()) return std::nullopt;
  return rare[rng.below(rare.size())];
}

/// Returns the effects of batches. `poison` draws one to four keys. About half of them kill each
/// worker that computes their batch, and the others give a loss of NaN. `flaky` draws one to four
/// keys that kill the first three workers in each epoch.
std::function<Poison(const Batch&)> poison_of(const Oracle& oracle, uint64_t seed,
                                              const FaultPlan& plan) {
  constexpr uint32_t kFlakyDeaths = 3;  // after these the chief quarantines the batch
  std::map<uint64_t, Poison> keys;
  Rng rng(hash_combine(seed, 0x9015));
  const bool poison = plan.on[size_t(FaultKind::kPoison)];
  for (uint64_t n = poison ? 1 + rng.below(4) : 0; n > 0; --n) {
    if (const auto key = rare_key(oracle, rng))
      keys[*key] = rng.below(2) == 0 ? Poison::kDeath : Poison::kNan;
  }
  Rng own(hash_combine(seed, 0xf1a4));
  const bool flaky = plan.on[size_t(FaultKind::kFlaky)];
  for (uint64_t n = flaky ? 1 + own.below(4) : 0; n > 0; --n) {
    if (const auto key = rare_key(oracle, own)) keys.insert({*key, Poison::kLateDeath});
  }
  return [keys, deaths = std::map<BatchId, uint32_t>()](const Batch& batch) mutable {
    Poison found = Poison::kNone;
    for (const TableKeys& table : batch.tables) {
      for (const uint64_t key : table.keys) {
        const auto at = keys.find(key);
        if (at == keys.end()) continue;
        if (at->second != Poison::kLateDeath) return at->second;
        found = Poison::kLateDeath;
      }
    }
    const bool over = found == Poison::kLateDeath && deaths[batch.id]++ >= kFlakyDeaths;
    return over ? Poison::kNone : found;
  };
}

}  // namespace

std::string invariant_of(const std::string& violation) {
  return violation.substr(0, violation.find(':'));
}

Result<Simulator> Simulator::make(SimulatorOptions options) {
  Simulator simulator;
  options.job.cluster.input_workers = options.inputs;
  if (options.inputs == 0) leave_out_inputs(options.faults);
  const auto plan_of = [](const Job& job) -> Result<std::unique_ptr<chief::RunPlan>> {
    DP_TRY(chief::RunPlan plan, chief::plan_run(job, wire::Purpose::kTrain));
    DP_TRY_VOID(chief::learn_statistics(plan, /*fresh=*/true));
    DP_TRY_VOID(chief::choose_slices(plan, wire::Purpose::kTrain));
    return std::make_unique<chief::RunPlan>(std::move(plan));
  };
  DP_TRY(simulator.plan_, plan_of(options.job));
  if (options.other_job) {
    DP_TRY(simulator.other_plan_, plan_of(*options.other_job));
    // The other plan uses the same job except for the number of epochs and its data files.
    chief::RunPlan& other = *simulator.other_plan_;
    const uint32_t epochs = other.job.train.epochs;
    other.job = simulator.plan_->job;
    other.job.train.epochs = epochs;
    other.job_text = job_to_toml(other.job);
  }
  if (options.check_values) {
    chief::RunPlan plan = *simulator.plan_;
    if (simulator.other_plan_ != nullptr)
      plan.job.train.epochs = simulator.other_plan_->job.train.epochs;
    DP_TRY(Oracle oracle, Oracle::make(plan));
    simulator.oracle_ = std::make_unique<Oracle>(std::move(oracle));
  }
  simulator.options_ = std::move(options);
  return simulator;
}

Outcome Simulator::run(uint64_t seed, const RunOptions& options) const {
  WorldSpec spec{
      .plan = plan_.get(),
      .other_plan = other_plan_.get(),
      .ps = options_.ps,
      .workers = options_.workers,
      .inputs = options_.inputs,
      .ps_cores = options_.ps_cores,
      .message_bytes_max = options_.message_bytes_max,
      .seed = seed,
      .faults = reduced(plan_of(seed), options.selection.without, options.selection.moments),
      .limit_ns = options_.limit_ns,
      .fresh = options.fresh,
      .storage = options.storage,
      .console = options.console,
      .trace = options.trace};
  Rng rng(hash_combine(seed, 5));
  // Under chaos, batches are so slow that training lasts until the faults happen.
  const int64_t drawn_ns = int64_t(20 + rng.below(300)) * kMillisecond;
  spec.worker_speed.batch_ns =
      options_.batch_ns.value_or(options_.faults.swarm ? drawn_ns : spec.worker_speed.batch_ns);
  const bool poisoned =
      spec.faults.on[size_t(FaultKind::kPoison)] || spec.faults.on[size_t(FaultKind::kFlaky)];
  if (poisoned && oracle_ != nullptr) spec.poison = poison_of(*oracle_, seed, spec.faults);
  World world(std::move(spec));
  const Checkers checkers(world, oracle_.get());
  return world.run();
}

Selection Simulator::shrink(uint64_t seed, const std::string& violation, uint32_t runs_max) const {
  const FaultPlan plan = plan_of(seed);
  Selection best;
  uint32_t runs = 0;
  const auto fails = [&](const Selection& selection) {
    if (runs >= runs_max) return false;
    ++runs;
    return invariant_of(run(seed, {.selection = selection}).violation) == invariant_of(violation);
  };
  for (size_t k = 0; k < kFaultKinds; ++k) {
    if (!plan.on[k]) continue;
    Selection less = best;
    less.without.push_back(FaultKind(k));
    if (fails(less)) best = std::move(less);
  }
  // Delta debugging: leave out chunks of events, halving the chunks down to single events.
  std::vector<uint32_t> moments;
  for (uint32_t i = 0; i < plan.events.size(); ++i) {
    if (std::find(best.without.begin(), best.without.end(), plan.events[i].kind) ==
        best.without.end())
      moments.push_back(i);
  }
  for (size_t chunk = std::max<size_t>(1, moments.size() / 2);; chunk /= 2) {
    for (size_t begin = 0; begin < moments.size();) {
      Selection less = best;
      less.moments = moments;
      const auto from = less.moments->begin() + ptrdiff_t(begin);
      less.moments->erase(from, from + ptrdiff_t(std::min(chunk, moments.size() - begin)));
      if (fails(less)) {
        moments = *less.moments;
        best = std::move(less);
      } else {
        begin += chunk;
      }
    }
    if (chunk <= 1) break;
  }
  if (!best.moments) best.moments = moments;
  return best;
}

}  // namespace downpour::sim
