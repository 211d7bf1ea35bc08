// Simulator: one job under many seeds; finds the smallest set of faults that breaks an invariant.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/sim/checkers.h"
#include "tools/sim/world.h"

namespace downpour::sim {

struct SimulatorOptions {
  Job job;                       // complete
  std::optional<Job> other_job;  // the same records in other files, for the fault `change-data`
  bool check_values = false;     // against an Oracle
  uint32_t ps = 1, workers = 1;
  uint32_t inputs = 0;    // input processes; the job's cluster.input_workers becomes this
  uint32_t ps_cores = 1;  // of each ps
  uint64_t message_bytes_max = wire::kFrameBytesMax;  // of a worker's pull or push
  FaultSpec faults;
  std::optional<int64_t>
      batch_ns;  // a worker's time for a batch; none: by the seed under faults, else small
  int64_t limit_ns = INT64_MAX;  // of virtual time
};

/// What of a seed's faults happens; all, unless told otherwise.
struct Selection {
  std::vector<FaultKind> without;
  std::optional<std::vector<uint32_t>> moments;  // places in the plan's events
};

class Simulator {
 public:
  static Result<Simulator> make(SimulatorOptions options);

  struct RunOptions {
    Selection selection;
    Trace* trace = nullptr;
    Storage* storage = nullptr;  // null: a simulated disk
    bool fresh = false;
    chief::Console* console = nullptr;
  };
  Outcome run(uint64_t seed, const RunOptions& options) const;
  FaultPlan plan_of(uint64_t seed) const { return make_plan(options_.faults, seed); }

  /// The faults of a failing seed without which it no longer breaks the same invariant: first whole
  /// kinds are left out, then single moments. At most `runs_max` runs.
  Selection shrink(uint64_t seed, const std::string& violation, uint32_t runs_max) const;
  const chief::RunPlan& plan() const { return *plan_; }

 private:
  SimulatorOptions options_;
  std::unique_ptr<chief::RunPlan> plan_, other_plan_;
  std::unique_ptr<Oracle> oracle_;
};

/// "I1: at ps 0 ..." -> "I1".
std::string invariant_of(const std::string& violation);

}  // namespace downpour::sim
