#include "shared/metrics/auc.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

using namespace downpour;

namespace {

struct Sample {
  std::vector<float> logits, labels;
};

/// Draws from one normal distribution per class: mean, standard deviation, distance of the means in
/// standard deviations, share of positives.
Sample normals(uint64_t seed, size_t n, double mean, double spread, double distance, double share) {
  Rng rng(seed);
  Sample s;
  for (size_t i = 0; i < n; ++i) {
    const bool positive = rng.uniform64() < share;
    s.labels.push_back(positive ? 1.0F : 0.0F);
    s.logits.push_back(float(mean + spread * (rng.normal() + (positive ? distance : 0.0))));
  }
  return s;
}

/// Computes the exact area by sorting; ties count half.
double exact_auc(const Sample& s) {
  std::vector<std::pair<float, float>> order;
  for (size_t i = 0; i < s.logits.size(); ++i) order.emplace_back(s.logits[i], s.labels[i]);
  std::sort(order.begin(), order.end());
  double negatives = 0, positives = 0, ordered = 0;
  for (size_t i = 0; i < order.size();) {
    double n = 0, p = 0;
    const float logit = order[i].first;
    for (; i < order.size() && order[i].first == logit; ++i) (order[i].second > 0.5F ? p : n) += 1;
    ordered += p * (negatives + n / 2);
    negatives += n;
    positives += p;
  }
  return ordered / (negatives * positives);
}

AucHistogram histogram(const Sample& s) {
  AucHistogram h;
  h.add(s.logits, s.labels);
  return h;
}

}  // namespace

TEST_CASE("the area is exact to 1e-4 for wide, narrow, offset and imbalanced scores", "[metrics]") {
  struct Case {
    double mean, spread, distance, share;
  };
  const Case cases[] = {
      {0, 1, 1, 0.5},    {0, 5, 0.7, 0.3},  {-1.5, 1.2, 1, 0.2}, {-6, 1, 1.5, 0.003},
      {0, 1e-3, 1, 0.5}, {0, 2e-4, 1, 0.5}, {-3, 0.02, 1, 0.05}, {-3, 0.3, 0, 0.05},
      {40, 0.3, 1, 0.5}, {0, 100, 2, 0.5},  {0, 1, 6, 0.5},      {-1, 0.01, -1, 0.5},
  };
  for (const Case& c : cases) {
    const Sample s = normals(7, 200'000, c.mean, c.spread, c.distance, c.share);
    CAPTURE(c.mean, c.spread, c.distance, c.share);
    CHECK(std::abs(histogram(s).value() - exact_auc(s)) < 1e-4);
  }
}

TEST_CASE("equal scores count half, however many there are", "[metrics]") {
  Sample s = normals(3, 20'000, 0, 2, 1, 0.4);
  for (float& logit : s.logits) logit = std::round(logit);
  CHECK(histogram(s).value() == Approx(exact_auc(s)).epsilon(1e-12));
  CHECK(histogram({{1, 1, 1, 1}, {0, 1, 1, 0}}).value() == 0.5);
}

TEST_CASE("the area of a single class is NaN", "[metrics]") {
  CHECK(std::isnan(AucHistogram().value()));
  CHECK(std::isnan(histogram({{1, 2}, {1, 1}}).value()));
  CHECK(std::isnan(histogram({{1, 2}, {0, 0}}).value()));
}

TEST_CASE("buckets rise with the logit and stay in range for any float", "[metrics]") {
  const float inf = std::numeric_limits<float>::infinity();
  uint32_t last = auc_bucket(-inf);
  CHECK(last == 0);
  for (double x = -2000; x < 2000; x += 0.01) {
    const uint32_t bucket = auc_bucket(float(x));
    REQUIRE(bucket >= last);
    last = bucket;
  }
  CHECK(auc_bucket(inf) == kAucBuckets - 1);
  CHECK(auc_bucket(1e-5F) > auc_bucket(-1e-5F));
  CHECK(auc_bucket(std::numeric_limits<float>::quiet_NaN()) < kAucBuckets);
  CHECK(auc_bucket(-std::numeric_limits<float>::quiet_NaN()) < kAucBuckets);
}

TEST_CASE("merging in any grouping and order gives the histogram of all records", "[metrics]") {
  const Sample a = normals(1, 5000, 0, 1, 1, 0.5), b = normals(2, 300, -3, 1, 1, 0.1),
               c = normals(3, 7000, 1, 2, 1, 0.9);
  AucHistogram all = histogram(a);
  all.merge(histogram(b));
  all.merge(histogram(c));

  std::vector<AucBucket> left = histogram(a).to_sparse();
  merge_buckets(left, histogram(b).to_sparse());
  merge_buckets(left, histogram(c).to_sparse());
  std::vector<AucBucket> right = histogram(c).to_sparse();
  merge_buckets(right, histogram(b).to_sparse());
  merge_buckets(right, histogram(a).to_sparse());
  CHECK(left == all.to_sparse());
  CHECK(right == all.to_sparse());
  CHECK(auc_value(left) == all.value());

  AucHistogram again;
  CHECK(again.merge(left));
  CHECK(again.to_sparse() == left);
}

TEST_CASE("a bucket out of range is rejected, and counts saturate", "[metrics]") {
  AucHistogram h;
  CHECK_FALSE(h.merge(std::vector<AucBucket>{{kAucBuckets, 1, 1}}));
  CHECK(h.to_sparse().empty());
  const uint32_t most = std::numeric_limits<uint32_t>::max();
  CHECK(h.merge(std::vector<AucBucket>{{5, most, 1}}));
  CHECK(h.merge(std::vector<AucBucket>{{5, 1, 1}}));
  CHECK(h.to_sparse() == std::vector<AucBucket>{{5, most, 2}});
}

TEST_CASE("a cleared histogram is empty, and a record of weight 0 is left out", "[metrics]") {
  AucHistogram h = histogram({{1, -2}, {1, 0}});
  h.clear();
  CHECK(h.to_sparse().empty());
  const std::vector<float> logits = {1, 2, 3}, labels = {1, 0, 0}, weights = {1, 0, 0.5F};
  h.add(logits, labels, weights);
  CHECK(h.to_sparse().size() == 2);
  CHECK(h.value() == 0.0);
}
