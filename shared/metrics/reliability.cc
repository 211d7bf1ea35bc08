#include "shared/metrics/reliability.h"

#include <cmath>

#include "shared/metrics/auc.h"

namespace downpour {
namespace {

double records_of(const AucBucket& bucket) {
  return double(bucket.negatives) + double(bucket.positives);
}

}  // namespace

std::vector<ReliabilityBin> reliability_bins(std::span<const AucBucket> buckets, size_t bins_max) {
  double left = 0;
  for (const AucBucket& bucket : buckets) left += records_of(bucket);
  std::vector<ReliabilityBin> bins;
  ReliabilityBin sum;
  for (const AucBucket& bucket : buckets) {
    const double records = records_of(bucket);
    if (records == 0) continue;
    sum.predicted += records / (1 + std::exp(-auc_logit(bucket.bucket)));
    sum.observed += double(bucket.positives);
    sum.records += records;
    // The bins that are still to come share what is left.
    if (sum.records * double(bins_max - bins.size()) < left) continue;
    bins.push_back({sum.predicted / sum.records, sum.observed / sum.records, sum.records});
    left -= sum.records;
    sum = {};
  }
  return bins;
}

}  // namespace downpour
