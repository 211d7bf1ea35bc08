#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/metrics/metrics.h"
#include "shared/model/losses.h"

namespace downpour::model {
namespace {

struct Case {
  const char* name;
  uint32_t width;
  std::vector<float> scores, targets, weights;
  std::vector<double> wanted;  // mean absolute error; or accuracy among the top 1, 2, 3, ...
};

#include "tests/shared/model/error_golden.inc"

/// Computes the sums of every `step`-th record from `first` on.
OutputSums sums_of(const Case& test, Loss loss, uint32_t top_k, size_t first, size_t step) {
  OutputSums sums;
  const size_t targets = loss == Loss::kSoftmax ? 1 : test.width;
  std::vector<float> scratch(test.width);
  std::vector<uint64_t> class_counts(test.width);
  for (size_t r = first; r < test.weights.size(); r += step) {
    LossChunk chunk{.rows = 1, .width = test.width};
    chunk.x = {test.scores.data() + r * test.width, test.width};
    chunk.option = 0.5F;
    chunk.targets = test.targets.data() + r * targets;
    chunk.weights = test.weights.data() + r;
    chunk.scratch = scratch.data();
    chunk.sums = &sums;
    chunk.class_counts = class_counts;
    chunk.top_k = top_k;
    loss_and_gradient(loss, chunk);
  }
  return sums;
}

OutputSums merged(const Case& test, Loss loss, uint32_t top_k) {
  OutputSums all;
  for (const size_t worker : {2U, 0U, 1U}) all += sums_of(test, loss, top_k, worker, 3);
  return all;
}

TEST_CASE("the mean absolute error of every loss of numbers is that of scikit-learn",
          "[model][numeric]") {
  for (const Case& test : kNumbers) {
    CAPTURE(test.name);
    for (const Loss loss : {Loss::kSquared, Loss::kAbsolute, Loss::kHuber, Loss::kQuantile}) {
      for (const OutputSums& sums : {sums_of(test, loss, 1, 0, 1), merged(test, loss, 1)}) {
        const MetricValue mae = compute_metric("mae", {.sums = sums});
        CHECK(mae.value == Approx(test.wanted[0]).epsilon(1e-12));
        CHECK_FALSE(mae.higher_is_better);
      }
    }
  }
  // A Poisson output predicts e^z.
  const Case counts{"counts", 1, {0.0F, 0.0F}, {3.0F, 0.0F}, {1.0F, 3.0F}, {}};
  CHECK(compute_metric("mae", {.sums = sums_of(counts, Loss::kPoisson, 1, 0, 1)}).value == 1.25);
  CHECK(sums_of(counts, Loss::kLogistic, 1, 0, 1).absolute_error == 0);
}

TEST_CASE("the calibration of a vector target is that of all its elements", "[model][numeric]") {
  const Case rates{.name = "rates",
                   .width = 2,
                   .scores = {0, std::log(3.0F), std::log(2.0F), 0},
                   .targets = {1, 2, 0, 7},
                   .weights = {1, 0.5F},
                   .wanted = {}};
  // Predictions 1, 3 and 2, 1.
  const double wanted = (1 * (1 + 3) + 0.5 * (2 + 1)) / (1 * (1 + 2) + 0.5 * (0 + 7));
  const OutputSums sums = sums_of(rates, Loss::kPoisson, 1, 0, 1);
  CHECK(compute_metric("calibration", {.sums = sums}).value == Approx(wanted));
  const Case classes{.name = "classes",
                     .width = 2,
                     .scores = {0, 0, 0, 0},
                     .targets = {1, 0, 1, 0},
                     .weights = {1, 1},
                     .wanted = {}};
  const OutputSums halves = sums_of(classes, Loss::kLogistic, 1, 0, 1);
  CHECK(compute_metric("calibration", {.sums = halves}).value == Approx(1));
}

TEST_CASE("the best constant of classes has the records' weights", "[model][numeric]") {
  // Class 0 has three quarters of the weight and one third of the records.
  const std::vector<float> scores(6), targets = {0, 1, 1}, weights = {6, 1.5F, 0.5F};
  std::vector<float> scratch(2);
  OutputMetrics metrics;
  metrics.class_counts.resize(2);
  LossChunk chunk{.rows = 3, .width = 2};
  chunk.x = {scores.data(), 2};
  chunk.targets = targets.data();
  chunk.weights = weights.data();
  chunk.scratch = scratch.data();
  chunk.sums = &metrics.sums;
  chunk.class_counts = metrics.class_counts;
  loss_and_gradient(Loss::kSoftmax, chunk);
  const double entropy = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  CHECK(best_constant_loss("softmax_cross_entropy", 1, metrics) == Approx(entropy).epsilon(1e-6));
}

TEST_CASE("the best constant and r2 of targets far from 0 are exact", "[model][numeric]") {
  // The weighted mean is 1000001, the weighted variance 1.5; the errors are -1, 1 and 0.
  const Case far{"far",
                 1,
                 {999'998, 1'000'003, 1'000'001},
                 {999'999, 1'000'002, 1'000'001},
                 {1.0F, 2.0F, 1.0F},
                 {}};
  const OutputMetrics metrics{.sums = sums_of(far, Loss::kSquared, 1, 0, 1)};
  CHECK(*best_constant_loss("squared", 1, metrics) == Approx(1.5));
  CHECK(compute_metric("r2", metrics).value == Approx(1 - 0.75 / 1.5));
}

TEST_CASE("top-k accuracy is that of scikit-learn for every k", "[model][numeric]") {
  for (const Case& test : kClasses) {
    CAPTURE(test.name);
    for (uint32_t k = 1; k < test.width; ++k) {
      CAPTURE(k);
      for (const OutputSums& sums :
           {sums_of(test, Loss::kSoftmax, k, 0, 1), merged(test, Loss::kSoftmax, k)}) {
        const MetricValue accuracy = compute_metric("top_k_accuracy", {.sums = sums});
        CHECK(accuracy.value == Approx(test.wanted[k - 1]).epsilon(1e-12));
        CHECK(accuracy.higher_is_better);
        if (k == 1) CHECK(sums.in_top_k == sums.correct);
      }
    }
  }
}

TEST_CASE("of equal scores the lower class is ahead, and an unknown class is in no top",
          "[model]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float target : {0.0F, 1.0F, 2.0F, 3.0F, -1.0F, 4.0F, nan}) {
    CAPTURE(target);
    const Case equal{"equal", 4, {1.0F, 1.0F, 1.0F, 1.0F}, {target}, {1.0F}, {}};
    CHECK(sums_of(equal, Loss::kSoftmax, 2, 0, 1).in_top_k ==
          (target == 0.0F || target == 1.0F ? 1 : 0));
    CHECK(sums_of(equal, Loss::kSoftmax, 4, 0, 1).in_top_k ==
          (target >= 0.0F && target < 4.0F ? 1 : 0));
  }
}

TEST_CASE("a score that is no number is in no top, and ahead of others", "[model]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float target : {0.0F, 1.0F, 2.0F}) {
    CAPTURE(target);
    const Case all{"all", 3, {nan, nan, nan}, {target}, {1.0F}, {}};
    CHECK(sums_of(all, Loss::kSoftmax, 2, 0, 1).in_top_k == 0);
    const Case one{"one", 3, {3.0F, nan, 1.0F}, {target}, {1.0F}, {}};
    CHECK(sums_of(one, Loss::kSoftmax, 2, 0, 1).in_top_k == (target == 0.0F ? 1 : 0));
  }
}

}  // namespace
}  // namespace downpour::model
