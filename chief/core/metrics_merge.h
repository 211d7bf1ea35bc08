// Merging metrics that peers sent: what they say is checked first.
#pragma once

#include <vector>

#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour::chief {

/// Buckets ascending and in range.
inline bool is_histogram(const std::vector<AucBucket>& buckets) {
  uint64_t at = 0;
  for (const AucBucket& bucket : buckets) {
    if (bucket.bucket < at || bucket.bucket >= kAucBuckets) return false;
    at = uint64_t(bucket.bucket) + 1;
  }
  return true;
}

/// Output by output; `into` grows to the longer list. An output whose histogram is none is left
/// out.
inline void merge_metrics(std::vector<OutputMetrics>& into,
                          const std::vector<OutputMetrics>& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (is_histogram(from[i].auc)) merge(into[i], from[i]);
  }
}

}  // namespace downpour::chief
