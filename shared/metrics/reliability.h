// The calibration of predicted probabilities: the share of positive records among those with about
// the same prediction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/metrics/sums.h"

namespace downpour {

/// Records with neighboring predictions: a point of a reliability diagram (Murphy and Winkler,
/// 1977). Records count without their weights.
struct ReliabilityBin {
  double predicted = 0;  // mean probability
  double observed = 0;   // share of positive records
  uint64_t records = 0;
  bool operator==(const ReliabilityBin&) const = default;
};

/// Divides the records of an AUC histogram, whose scores are logits, into at most `bins_max` bins
/// of about equally many records, in ascending order. Records of one bucket stay together, and have
/// the probability of its middle. `buckets`: in ascending order.
std::vector<ReliabilityBin> reliability_bins(std::span<const AucBucket> buckets, size_t bins_max);

}  // namespace downpour
