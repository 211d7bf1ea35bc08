#include "shared/metrics/ranking.h"

#include <ranges>

#include "shared/metrics/auc.h"

namespace downpour {
namespace {

double share_of(double part, double whole) {
  return whole > 0 ? part / whole : RankingMetrics::kNone;
}

}  // namespace

RankingMetrics ranking_metrics(std::span<const AucBucket> buckets) {
  constexpr uint32_t kZeroBucket = kAucBuckets / 2;  // the bucket of logit 0 and those above it
  double positives = 0, predicted = 0, found = 0;
  for (const AucBucket& bucket : buckets) {
    positives += double(bucket.positives);
    if (bucket.bucket < kZeroBucket) continue;
    found += double(bucket.positives);
    predicted += double(bucket.positives) + double(bucket.negatives);
  }
  double sum = 0, above = 0, records = 0;  // from the highest threshold down
  for (const AucBucket& bucket : std::views::reverse(buckets)) {
    above += double(bucket.positives);
    records += double(bucket.positives) + double(bucket.negatives);
    if (bucket.positives > 0) sum += double(bucket.positives) * (above / records);
  }
  RankingMetrics metrics;
  metrics.auc = auc_value(buckets);
  metrics.pr_auc = share_of(sum, positives);
  metrics.precision = share_of(found, predicted);
  metrics.recall = share_of(found, positives);
  metrics.f1 = share_of(2 * found, predicted + positives);
  return metrics;
}

}  // namespace downpour
