// Resume: which keys of a job may change when a run resumes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// How long a key keeps its value when a run resumes.
enum class Frozen : uint8_t { kNever, kInEpoch, kForRun };

/// Returns how long a key ("train.batch_size", "model.layers[1].dim") is frozen, or nothing if
/// resume.cc has no rule for it.
std::optional<Frozen> frozen(std::string_view key);

/// A key that must not change, with its value in the saved job and in the new one ("(none)":
/// absent).
struct FrozenDifference {
  std::string key;
  std::string was;
  std::string now;
  bool for_the_run = false;  // false: see `epoch_open` of frozen_differences()
  bool operator==(const FrozenDifference&) const = default;
};

/// Returns the changed keys that must not change. Both jobs must be complete. Frozen are:
/// - For the run: seed, partitions, model (except the preset's name and the metrics of outputs),
///   and the optimizers' types and rules.
/// - While `epoch_open`: data (except prefetch, parallelism, cache, memory and bad_records*),
///   batch_size, drop_remainder, reduction, steps_per_epoch, mode and eval.holdout. The caller sets
///   `epoch_open` to false if all epochs of the saved job are sealed and `now` wants further ones.
std::vector<FrozenDifference> frozen_differences(const Job& saved, const Job& now, bool epoch_open);

/// Returns the error that lists the differences (the first five) and the possible actions.
/// `differences` is not empty.
Error frozen_error(std::span<const FrozenDifference> differences, const std::string& run_dir);

}  // namespace downpour
