// The sums of a model's outputs: added up, and small enough for a message.
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

/// Adds `from` to `into`, output by output.
inline void merge_metrics(std::vector<OutputMetrics>& into,
                          const std::vector<OutputMetrics>& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t o = 0; o < from.size(); ++o) merge(into[o], from[o]);
}

}  // namespace downpour::worker
