#include "shared/metrics/auc.h"

#include <algorithm>
#include <limits>

#include "shared/base/check.h"

namespace downpour {
namespace {

uint32_t add_saturating(uint32_t a, uint32_t b) {
  const uint32_t sum = a + b;
  return sum < a ? std::numeric_limits<uint32_t>::max() : sum;
}

}  // namespace

void AucHistogram::allocate() {
  counts_.resize(2 * size_t{kAucBuckets});
  touched_.resize(kAucBuckets / 64);
}

void AucHistogram::add(std::span<const float> logits, std::span<const float> labels,
                       std::span<const float> weights) {
  DP_CHECK(logits.size() == labels.size(), logits.size(), labels.size());
  DP_CHECK(weights.empty() || weights.size() == logits.size(), weights.size(), logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (weights.empty() || weights[i] > 0.0F) add(logits[i], labels[i]);
  }
}

void AucHistogram::merge(const AucHistogram& other) {
  if (other.counts_.empty()) return;
  if (counts_.empty()) allocate();
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] = add_saturating(counts_[i], other.counts_[i]);
  }
  for (size_t i = 0; i < touched_.size(); ++i) touched_[i] |= other.touched_[i];
}

bool AucHistogram::merge(std::span<const AucBucket> buckets) {
  bool all_valid = true;
  if (counts_.empty() && !buckets.empty()) allocate();
  for (const AucBucket& b : buckets) {
    if (b.bucket >= kAucBuckets) {
      all_valid = false;
      continue;
    }
    touched_[b.bucket / 64] |= uint64_t{1} << (b.bucket % 64);
    uint32_t* counts = &counts_[2 * size_t{b.bucket}];
    counts[0] = add_saturating(counts[0], b.negatives);
    counts[1] = add_saturating(counts[1], b.positives);
  }
  return all_valid;
}

void AucHistogram::to_sparse(std::vector<AucBucket>& buckets) const {
  buckets.clear();
  for (size_t word = 0; word < touched_.size(); ++word) {
    for (uint64_t bits = touched_[word]; bits != 0; bits &= bits - 1) {
      const uint32_t bucket = uint32_t(word * 64) + uint32_t(std::countr_zero(bits));
      buckets.push_back({bucket, counts_[2 * size_t{bucket}], counts_[2 * size_t{bucket} + 1]});
    }
  }
}

std::vector<AucBucket> AucHistogram::to_sparse() const {
  std::vector<AucBucket> buckets;
  to_sparse(buckets);
  return buckets;
}

double AucHistogram::value() const { return auc_value(to_sparse()); }

void AucHistogram::clear() {
  for (size_t word = 0; word < touched_.size(); ++word) {
    for (uint64_t bits = touched_[word]; bits != 0; bits &= bits - 1) {
      const size_t bucket = word * 64 + size_t(std::countr_zero(bits));
      counts_[2 * bucket] = counts_[2 * bucket + 1] = 0;
    }
    touched_[word] = 0;
  }
}

double auc_value(std::span<const AucBucket> buckets) {
  double negatives = 0;
  double positives = 0;
  // Pairs with the higher positive score; ties count half. Exact up to 2^53 pairs.
  double ordered = 0;
  for (const AucBucket& b : buckets) {
    ordered += double(b.positives) * (negatives + 0.5 * double(b.negatives));
    negatives += double(b.negatives);
    positives += double(b.positives);
  }
  if (negatives == 0 || positives == 0) return std::numeric_limits<double>::quiet_NaN();
  return ordered / (negatives * positives);
}

void coarsen_buckets(std::vector<AucBucket>& buckets, size_t buckets_max) {
  for (uint32_t step = 2; buckets.size() > std::max<size_t>(buckets_max, 1) && step <= kAucBuckets;
       step *= 2) {
    size_t kept = 0;
    for (const AucBucket& bucket : buckets) {
      const uint32_t joined = bucket.bucket / step * step;
      if (kept > 0 && buckets[kept - 1].bucket == joined) {
        buckets[kept - 1].negatives += bucket.negatives;
        buckets[kept - 1].positives += bucket.positives;
      } else {
        buckets[kept++] = {joined, bucket.negatives, bucket.positives};
      }
    }
    buckets.resize(kept);
  }
}

void merge_buckets(std::vector<AucBucket>& into, std::span<const AucBucket> from) {
  if (from.empty()) return;
  std::vector<AucBucket> merged;
  merged.reserve(into.size() + from.size());
  size_t i = 0;
  for (const AucBucket& b : from) {
    while (i < into.size() && into[i].bucket < b.bucket) merged.push_back(into[i++]);
    if (i < into.size() && into[i].bucket == b.bucket) {
      merged.push_back({b.bucket, add_saturating(into[i].negatives, b.negatives),
                        add_saturating(into[i].positives, b.positives)});
      ++i;
    } else {
      merged.push_back(b);
    }
  }
  merged.insert(merged.end(), into.begin() + std::ptrdiff_t(i), into.end());
  into = std::move(merged);
}

}  // namespace downpour
