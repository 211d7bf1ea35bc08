// Makes the sums of a model's outputs small enough for a message.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour::worker {

/// Merges AUC buckets until all outputs together fit a message.
inline void limit_buckets(std::vector<OutputMetrics>& outputs) {
  constexpr size_t kBucketsMax = 32768;  // half a MiB in a header
  for (OutputMetrics& output : outputs) coarsen_buckets(output.auc, kBucketsMax / outputs.size());
}

}  // namespace downpour::worker
