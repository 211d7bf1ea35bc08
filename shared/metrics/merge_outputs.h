// Merges the metrics of several outputs, which a peer may have sent.
#pragma once

#include <vector>

#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour {

/// Returns true if the buckets are ascending and in range.
inline bool is_histogram(const std::vector<AucBucket>& buckets) {
  uint64_t at = 0;
  for (const AucBucket& bucket : buckets) {
    if (bucket.bucket < at || bucket.bucket >= kAucBuckets) return false;
    at = uint64_t(bucket.bucket) + 1;
  }
  return true;
}

/// Adds `from` to `into`, output by output; `into` grows to the longer list. Outputs with an
/// invalid histogram are skipped.
inline void merge_outputs(std::vector<OutputMetrics>& into,
                          const std::vector<OutputMetrics>& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (is_histogram(from[i].auc)) merge(into[i], from[i]);
  }
}

}  // namespace downpour
