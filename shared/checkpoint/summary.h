// Summary: what `downpour inspect` shows of a checkpoint. Computing it reads and verifies every
// byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"
#include "shared/tensor/variables.h"

namespace downpour::checkpoint {

/// One variable as stored. The statistics cover its weights, not its slots. Elements that were
/// never written are not stored.
struct VariableSummary {
  std::string table;
  TableKind kind = TableKind::kEmbedding;
  VariableSpec spec;
  uint64_t rows = 0;      // embedding rows, or dense blocks
  uint64_t elements = 0;  // weights stored
  uint64_t weight_bytes = 0;
  uint64_t slot_bytes = 0;
  double l2_norm = 0;      // of finite elements
  float min = 0, max = 0;  // of finite elements; 0 if there are none
  uint64_t zeros = 0;
  uint64_t non_finite = 0;  // NaN or infinite
  bool operator==(const VariableSummary&) const = default;
};

/// Sums of an unsealed epoch over the partitions.
struct OpenEpochSummary {
  uint32_t epoch = 0;
  uint32_t shards_ended_min = 0;  // at the partition with the fewest
  uint32_t shards_ended_max = 0;
  bool operator==(const OpenEpochSummary&) const = default;
};

struct Summary {
  Manifest manifest;
  std::string manifest_path;
  std::vector<std::string> skipped;  // newer manifests that are not intact, with reasons
  std::optional<Error> best_damage;  // of another checkpoint that the manifest names as the best
  std::vector<VariableSummary> variables;
  std::vector<OpenEpochSummary> open_epochs;
  uint64_t rows = 0;                                     // embedding rows, as counted
  uint64_t rows_min = 0, rows_median = 0, rows_max = 0;  // of a partition
  uint64_t version_min = 0, version_max = 0;
  uint64_t steps_before_min = 0, steps_before_max = 0;
  uint32_t files = 0;
  uint64_t bytes = 0;  // of the images of this checkpoint
  // Images of other checkpoints that this one builds on; 0 and empty if all images are full.
  uint64_t base_bytes = 0;
  uint32_t images_max = 0;    // of one partition, including its newest
  std::vector<ViewId> bases;  // ascending
};

/// Summarizes the newest intact checkpoint of a run folder, or the manifest at `path`. In a run
/// folder it also verifies the checkpoint that the manifest names as the best. Errors:
/// kNoInput if `path` is neither; kBadData with file and offset if a byte is damaged.
Result<Summary> summarize(Storage& storage, const std::string& path);

}  // namespace downpour::checkpoint
