// The metrics of a binary output that follow from its AUC histogram.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "shared/metrics/sums.h"

namespace downpour {

/// Each is NaN if the histogram does not define it. A record is predicted positive if its logit is
/// at least 0, so its probability at least 0.5; 0 is the lower bound of a bucket, so these counts
/// are exact. Records count without their weights.
struct RankingMetrics {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  /// Area under the ROC curve. Ties count half.
  double auc = kNone;
  /// Average precision: the sum over the thresholds of the precision times the growth of the
  /// recall, without interpolation. Records of one bucket have one threshold.
  double pr_auc = kNone;
  double precision = kNone;           // positives among the records that are predicted positive
  double recall = kNone;              // records that are predicted positive among the positives
  double f1 = kNone;                  // harmonic mean of the two; 0 without a true positive
  double gauc = kNone, ndcg = kNone;  // GroupMetrics; not of a histogram
  bool operator==(const RankingMetrics&) const = default;
};

/// Computes the metrics of buckets in ascending order.
RankingMetrics ranking_metrics(std::span<const AucBucket> buckets);

/// Name and member of each metric.
struct RankingMetric {
  std::string_view name;
  double RankingMetrics::*value;
};
inline constexpr std::array kRankingMetrics = {
    RankingMetric{"auc", &RankingMetrics::auc},
    RankingMetric{"pr_auc", &RankingMetrics::pr_auc},
    RankingMetric{"precision", &RankingMetrics::precision},
    RankingMetric{"recall", &RankingMetrics::recall},
    RankingMetric{"f1", &RankingMetrics::f1},
    RankingMetric{"gauc", &RankingMetrics::gauc},
    RankingMetric{"ndcg", &RankingMetrics::ndcg},
};

/// Returns the entry of a name, or null. Higher values of all of them are better.
constexpr const RankingMetric* find_ranking_metric(std::string_view name) {
  for (const RankingMetric& metric : kRankingMetrics)
    if (metric.name == name) return &metric;
  return nullptr;
}

}  // namespace downpour
