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
  bool for_the_run = false;  // false: the key may change once the epoch is sealed
  bool operator==(const FrozenDifference&) const = default;
};

/// Returns the changed keys that must not change. Frozen for the run: seed, partitions, model
/// (except the preset's name and the metrics of outputs), and the optimizers' types and rules.
/// Frozen within an open epoch: data (except prefetch, parallelism, cache, memory and
/// bad_records*), batch_size, drop_remainder, reduction, steps_per_epoch, mode and eval.holdout.
/// Both jobs must be complete.
std::vector<FrozenDifference> frozen_differences(const Job& saved, const Job& now, bool epoch_open);

/// Returns the error that lists the differences (the first five) and the possible actions.
/// `differences` is not empty.
Error frozen_error(std::span<const FrozenDifference> differences, const std::string& run_dir);

}  // namespace downpour
