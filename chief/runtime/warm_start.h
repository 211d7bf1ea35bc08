// Warm start: the first checkpoint of a new run, made of another run's newest one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Where a new run stands before its own first checkpoint.
constexpr ViewId kWarmStartCheckpoint{1, 0};

/// Why tables of another run can not be taken into this one; the first difference, with both
/// values. What a row is looked up by must agree (partitions, tables in their order), and what is
/// stored of it (variables with their sizes, with `slots` the optimizer's type).
Result<void> check_warm_start(const checkpoint::Manifest& from,
                              const std::vector<TableSpec>& tables, uint32_t partitions,
                              bool slots);

/// Copies variables (and slots) of `from`'s newest whole checkpoint into `to.run_dir`, published as
/// kWarmStartCheckpoint of the run `to.run`: epochs from 0, no watermarks, versions 0. The other
/// run is not needed afterwards. What an earlier attempt left there is replaced. `notes` hears of
/// newer checkpoints that are not whole.
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

}  // namespace downpour::chief
