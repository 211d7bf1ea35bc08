// Makes the sums of a model's outputs small enough for a message.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour::worker {

constexpr size_t kBucketsMax = 32768;       // half a MiB in a header
constexpr size_t kSliceBucketsMax = 24576;  // in addition, so that both fit the header

/// Merges AUC buckets until all outputs together have at most `buckets_max` of them, so that they
/// fit a message.
inline void limit_buckets(std::vector<OutputMetrics>& outputs, size_t buckets_max = kBucketsMax) {
  size_t buckets = 0;
  for (const OutputMetrics& output : outputs) buckets += output.auc.size();
  if (buckets <= buckets_max) return;
  for (OutputMetrics& output : outputs) coarsen_buckets(output.auc, buckets_max / outputs.size());
}

}  // namespace downpour::worker
