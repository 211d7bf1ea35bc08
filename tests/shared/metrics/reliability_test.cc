#include "shared/metrics/reliability.h"

#include <cmath>
#include <random>

#include <catch2/catch.hpp>

#include "shared/metrics/auc.h"

using namespace downpour;

TEST_CASE("the middle of a bucket lies in the bucket", "[metrics]") {
  for (uint32_t bucket = 0; bucket < kAucBuckets; ++bucket) {
    const double logit = auc_logit(bucket);
    if (auc_bucket(float(logit)) != bucket) FAIL("bucket " << bucket << ", logit " << logit);
  }
  CHECK(auc_logit(auc_bucket(3.0F)) == Approx(3.0).margin(1e-3));
  CHECK(auc_logit(auc_bucket(-0.25F)) == Approx(-0.25).margin(1e-4));
}

TEST_CASE("the bins of a calibrated model lie on the diagonal, those of others do not",
          "[metrics]") {
  std::mt19937 random(1);
  std::normal_distribution<float> logits(-1, 1.5F);
  std::uniform_real_distribution<double> uniform(0, 1);
  AucHistogram calibrated, overconfident;
  for (int i = 0; i < 200'000; ++i) {
    const float logit = logits(random);
    const float label = uniform(random) < 1 / (1 + std::exp(-double(logit))) ? 1.0F : 0.0F;
    calibrated.add(logit, label);
    overconfident.add(2 * logit, label);
  }
  const auto bins = reliability_bins(calibrated.to_sparse(), 10);
  REQUIRE(bins.size() == 10);
  double last = 0;
  for (const ReliabilityBin& bin : bins) {
    CHECK(double(bin.records) == Approx(20'000).margin(50));
    CHECK(bin.observed == Approx(bin.predicted).margin(0.012));  // three standard deviations
    CHECK(bin.predicted > last);
    last = bin.predicted;
  }
  const auto others = reliability_bins(overconfident.to_sparse(), 10);
  CHECK(others.front().observed > others.front().predicted + 0.02);
  CHECK(others.back().observed < others.back().predicted - 0.05);
}

TEST_CASE("every record is in one bin, and equal predictions share one", "[metrics]") {
  CHECK(reliability_bins({}, 10).empty());
  AucHistogram one;
  for (int i = 0; i < 5; ++i) one.add(0.5F, i < 2 ? 1.0F : 0.0F);
  const auto single = reliability_bins(one.to_sparse(), 10);
  REQUIRE(single.size() == 1);
  CHECK(single[0].records == 5);
  CHECK(single[0].observed == 0.4);
  CHECK(single[0].predicted == Approx(1 / (1 + std::exp(-0.5))).margin(1e-4));
  AucHistogram three;
  for (const float logit : {-1.0F, 0.0F, 1.0F}) three.add(logit, 1);
  three.add(1.0F, 0);
  const auto bins = reliability_bins(three.to_sparse(), 2);
  REQUIRE(bins.size() == 2);
  CHECK(bins[0].records == 2);
  CHECK(bins[1].records == 2);
  CHECK(bins[1].observed == 0.5);
}
