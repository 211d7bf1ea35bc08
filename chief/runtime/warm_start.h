// Warm start: makes the first checkpoint of a new run from the model of another run, or from a
// file of arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// The checkpoint that a warm start publishes, before the first one of the run itself.
constexpr ViewId kWarmStartCheckpoint{1, 0};

/// Checks that the tables of another run fit this one. The number of partitions and the tables must
/// agree, in order, and so must the variables with their sizes. With `slots` the optimizer types
/// must agree, too. The error names the first difference, with both values.
Result<void> check_warm_start(const checkpoint::Manifest& from,
                              const std::vector<TableSpec>& tables, uint32_t partitions,
                              bool slots);

/// Copies variables (and slots) of the checkpoint of `from.run` that predictions use (load_used()),
/// or the variables of the arrays in `from.file` (start_weights.h), into `to.run_dir`. Publishes
/// them as kWarmStartCheckpoint of the run `to.run`, with epoch 0, version 0 and no watermarks. The
/// other run is not needed afterwards. Files of an earlier attempt are replaced. `notes` names
/// newer checkpoints that are not whole, or variables that a file does not have.
struct WarmStart {
  std::string run_dir;
  uint64_t run = 0;
  uint64_t plan_hash = 0;
  std::string job;
  std::string build;
  int64_t created_unix_s = 0;
};
Result<checkpoint::Manifest> make_warm_start(Storage& storage, const WarmStartSpec& from,
                                             const WarmStart& to,
                                             const std::vector<TableSpec>& tables,
                                             uint32_t partitions, std::vector<std::string>* notes);

/// Checks, before anything is removed, that a run of `job` can begin with the variables that the
/// job names. Errors: those of make_warm_start(); kUsage if they are those of `run_dir` itself.
Result<void> check_warm_start(Storage& storage, const Job& job, const std::string& run_dir,
                              const std::vector<TableSpec>& tables);

}  // namespace downpour::chief
