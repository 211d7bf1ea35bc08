// Simulator: runs one job under many seeds, and finds a small set of faults that breaks an
// invariant.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chief/runtime/console.h"
#include "chief/runtime/run_setup.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"
#include "shared/wire/member_messages.h"
#include "tools/sim/faults.h"
#include "tools/sim/oracle.h"
#include "tools/sim/outcome.h"
#include "tools/sim/trace.h"

namespace downpour::sim {

struct SimulatorOptions {
  Job job;                       // complete
  std::optional<Job> other_job;  // the same records in other files, for the fault `change-data`
  bool check_values = false;     // check values against an Oracle
  uint32_t ps = 1, workers = 1;
  uint32_t inputs = 0;    // input processes; replaces the job's cluster.input_workers
  uint32_t ps_cores = 1;  // per ps
  uint64_t message_bytes_max = wire::kFrameBytesMax;  // of a worker's pull or push
  FaultSpec faults;
  // A worker's time for a batch. If it is not set, the seed decides under `chaos`; otherwise it is
  // the default of WorkerSpeed.
  std::optional<int64_t> batch_ns;
  int64_t limit_ns = INT64_MAX;  // of virtual time
};

/// The faults of a seed that happen. By default all of them do.
struct Selection {
  std::vector<FaultKind> without;
  std::optional<std::vector<uint32_t>> moments;  // indices into the plan's events
};

class Simulator {
 public:
  static Result<Simulator> make(SimulatorOptions options);

  struct RunOptions {
    Selection selection;
    Trace* trace = nullptr;
    Storage* storage = nullptr;  // null: use a simulated disk
    bool fresh = false;
    chief::Console* console = nullptr;
  };
  Outcome run(uint64_t seed, const RunOptions& options) const;
  FaultPlan plan_of(uint64_t seed) const { return make_plan(options_.faults, seed); }

  /// Returns a small set of a failing seed's faults that still breaks the same invariant. It first
  /// leaves out whole kinds, then single events, and makes at most `runs_max` runs.
  Selection shrink(uint64_t seed, const std::string& violation, uint32_t runs_max) const;
  const chief::RunPlan& plan() const { return *plan_; }

 private:
  SimulatorOptions options_;
  std::unique_ptr<chief::RunPlan> plan_, other_plan_;
  std::unique_ptr<Oracle> oracle_;
};

/// Returns the invariant of a violation: "I1" for "I1: at ps 0 ...".
std::string invariant_of(const std::string& violation);

}  // namespace downpour::sim
