// AucHistogram: area under the ROC curve from counts in fixed buckets of the logit. Mergeable,
// order-independent.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/metrics/sums.h"

namespace downpour {

constexpr uint32_t kAucBuckets = 65536;

/// The bucket of a logit: monotone, asinh-like, exact integer arithmetic on the bits of |x| + 2^-6,
/// of which the top 11 mantissa bits are kept: 2048 buckets an octave over 16 octaves, 7.6e-6 wide
/// at 0, 1e-3 at 3, |x| >= 1008 in the last. NaN counts as the largest (or smallest, by its sign):
/// a wrong score, but never a wrong address.
inline uint32_t auc_bucket(float logit) {
  constexpr uint32_t kSide = kAucBuckets / 2;
  constexpr float kOffset = 0x1p-6F;
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0F);  // -0 ties with 0
  const uint32_t shifted =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bits & 0x7fffffffU) + kOffset);
  uint32_t place = (shifted - std::bit_cast<uint32_t>(kOffset)) >> 12;
  place = place < kSide ? place : kSide - 1;
  return (bits >> 31) != 0 ? kSide - 1 - place : kSide + place;
}

/// Counts of negatives and positives by bucket.
///
/// Inside a bucket every pair counts half, which is the trapezoid rule on the ROC curve: the error
/// falls with the square of bucket width over score spread. Below 1e-4 while the scores' standard
/// deviation is at least 1/150 of their mean (and 2e-4 around 0); measured in auc_test.cc.
class AucHistogram {
 public:
  AucHistogram();

  /// One record; a label above 0.5 is positive.
  void add(float logit, float label) {
    const uint32_t bucket = auc_bucket(logit);
    touched_[bucket / 64] |= uint64_t{1} << (bucket % 64);
    ++counts_[2 * size_t{bucket} + (label > 0.5F ? 1 : 0)];
  }
  /// Several records. `weights` may be empty; a record whose weight is not above 0 is left out.
  void add(std::span<const float> logits, std::span<const float> labels,
           std::span<const float> weights = {});
  void merge(const AucHistogram& other);
  /// Errors: a bucket beyond kAucBuckets (from a peer) is left out and false returned.
  [[nodiscard]] bool merge(std::span<const AucBucket> buckets);

  /// The non-empty buckets in ascending order, into `buckets` (its memory is kept).
  void to_sparse(std::vector<AucBucket>& buckets) const;
  std::vector<AucBucket> to_sparse() const;
  /// The area; NaN where one of the two classes is missing.
  double value() const;
  /// Forgets all counts; costs only the buckets touched.
  void clear();

 private:
  std::vector<uint32_t> counts_;   // negatives, positives of each bucket
  std::vector<uint64_t> touched_;  // one bit a bucket
};

/// The area from sparse buckets in ascending order; NaN where one of the two classes is missing.
double auc_value(std::span<const AucBucket> buckets);

/// Joins neighbours (2, 4, 8... buckets to one) until at most `buckets_max` are left; pairs inside
/// a bucket count half, so resolution is lost and nothing else. buckets_max > 0.
void coarsen_buckets(std::vector<AucBucket>& buckets, size_t buckets_max);

/// Adds ascending `from` to ascending `into`; counts saturate at 2^32 - 1. Associative and
/// commutative.
void merge_buckets(std::vector<AucBucket>& into, std::span<const AucBucket> from);

}  // namespace downpour
