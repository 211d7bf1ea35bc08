// Resume: what a run that goes on may change.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// A key that may not change, with its value in the saved job and in the one given now ("(none)":
/// absent).
struct FrozenDifference {
  std::string key;
  std::string was;
  std::string now;
  bool for_the_run = false;  // false: free again once the epoch is sealed
  bool operator==(const FrozenDifference&) const = default;
};

/// Frozen for the run: seed, partitions, model (but an output's metrics), the optimizers' types and
/// rules. Within an open epoch also: data (but prefetch, parallelism, bad_records*), batch_size,
/// drop_remainder, reduction, mode and eval.holdout. Both jobs complete.
std::vector<FrozenDifference> frozen_differences(const Job& saved, const Job& now, bool epoch_open);

/// The error that names every difference and the ways on; `differences` is not empty.
Error frozen_error(std::span<const FrozenDifference> differences, const std::string& run_dir);

}  // namespace downpour
