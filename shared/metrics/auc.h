// AucHistogram: area under the ROC curve, from counts in fixed buckets of the logit. Histograms can
// be merged in any order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/metrics/sums.h"

namespace downpour {

constexpr uint32_t kAucBuckets = 65536;

/// Returns the bucket of a logit. The mapping is monotone and similar to asinh. It is exact integer
/// arithmetic on the bits of |x| + 2^-6, of which the top 11 bits of the mantissa are used: 2048
/// buckets per octave over 16 octaves. A bucket is 7.6e-6 wide at 0 and 1e-3 wide at 3; the last
/// one holds |x| >= 1023.74. NaN counts as the largest or smallest logit, by its sign: the score is
/// wrong, but the bucket is in range.
inline uint32_t auc_bucket(float logit) {
  constexpr uint32_t kSide = kAucBuckets / 2;
  constexpr float kOffset = 0x1p-6F;
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0F);  // -0 and 0 share a bucket
  const uint32_t shifted =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bits & 0x7fffffffU) + kOffset);
  uint32_t place = (shifted - std::bit_cast<uint32_t>(kOffset)) >> 12;
  place = place < kSide ? place : kSide - 1;
  return (bits >> 31) != 0 ? kSide - 1 - place : kSide + place;
}

/// Returns the logit in the middle of a bucket.
inline double auc_logit(uint32_t bucket) {
  constexpr uint32_t kSide = kAucBuckets / 2;
  const bool negative = bucket < kSide;
  const uint32_t place = negative ? kSide - 1 - bucket : bucket - kSide;
  const uint32_t middle = std::bit_cast<uint32_t>(0x1p-6F) + (place << 12) + (1U << 11);
  const double size = double(std::bit_cast<float>(middle)) - 0x1p-6;
  return negative ? -size : size;
}

/// Counts of negatives and positives per bucket.
///
/// Every pair inside a bucket counts half. This is the trapezoid rule on the ROC curve, so the
/// error falls with the square of (bucket width / spread of the scores). The error is below 1e-4 if
/// the standard deviation of the scores is at least 1/150 of their mean, or at least 2e-4 around 0.
/// auc_test.cc measures it.
class AucHistogram {
 public:
  /// Adds one record. A label above 0.5 is positive.
  void add(float logit, float label) {
    if (counts_.empty()) allocate();
    const uint32_t bucket = auc_bucket(logit);
    touched_[bucket / 64] |= uint64_t{1} << (bucket % 64);
    ++counts_[2 * size_t{bucket} + (label > 0.5F ? 1 : 0)];
  }
  /// Adds several records. `weights` may be empty. Records with a weight of 0 or less are left out.
  void add(std::span<const float> logits, std::span<const float> labels,
           std::span<const float> weights = {});
  void merge(const AucHistogram& other);
  /// Adds sparse buckets. Returns false if a bucket is not below kAucBuckets (from a peer); that
  /// bucket is left out.
  [[nodiscard]] bool merge(std::span<const AucBucket> buckets);

  /// Writes the non-empty buckets in ascending order to `buckets` and reuses its memory.
  void to_sparse(std::vector<AucBucket>& buckets) const;
  std::vector<AucBucket> to_sparse() const;
  /// Returns the area, or NaN if one of the two classes has no records.
  double value() const;
  /// Resets all counts. Takes time proportional to the number of non-empty buckets.
  void clear();

 private:
  void allocate();

  // Both are empty until the first record: half a MiB that most models never need.
  std::vector<uint32_t> counts_;   // negatives and positives of each bucket, alternating
  std::vector<uint64_t> touched_;  // one bit per bucket: set if the bucket is not empty
};

/// Returns the area of sparse buckets in ascending order, or NaN if one class has no records.
double auc_value(std::span<const AucBucket> buckets);

/// Merges adjacent buckets (2, 4, 8, ... into one) until at most `buckets_max` are left.
/// Because pairs inside a bucket count half, the only effect is a lower resolution. `buckets_max` >
/// 0.
void coarsen_buckets(std::vector<AucBucket>& buckets, size_t buckets_max);

/// Adds the buckets `from` to `into`, both in ascending order. Counts saturate at 2^32 - 1. The
/// operation is associative and commutative.
void merge_buckets(std::vector<AucBucket>& into, std::span<const AucBucket> from);

}  // namespace downpour
