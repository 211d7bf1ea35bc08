#include "shared/metrics/reliability.h"

#include <cmath>

#include "shared/metrics/auc.h"

namespace downpour {
namespace {

uint64_t records_of(const AucBucket& bucket) {
  return uint64_t{bucket.negatives} + bucket.positives;
}

}  // namespace

std::vector<ReliabilityBin> reliability_bins(std::span<const AucBucket> buckets, size_t bins_max) {
  uint64_t left = 0;
  for (const AucBucket& bucket : buckets) left += records_of(bucket);
  std::vector<ReliabilityBin> bins;
  ReliabilityBin sum;
  for (const AucBucket& bucket : buckets) {
    const uint64_t records = records_of(bucket);
    if (records == 0) continue;
    sum.predicted += double(records) / (1 + std::exp(-auc_logit(bucket.bucket)));
    sum.observed += double(bucket.positives);
    sum.records += records;
    // The bins that are still to come share what is left.
    if (sum.records * (bins_max - bins.size()) < left) continue;
    const auto count = double(sum.records);
    bins.push_back({sum.predicted / count, sum.observed / count, sum.records});
    left -= sum.records;
    sum = {};
  }
  return bins;
}

}  // namespace downpour
