#include "shared/metrics/metrics.h"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "shared/job/metric_names.h"

using namespace downpour;

TEST_CASE("metrics are quotients of sums", "[metrics]") {
  OutputMetrics m;
  m.sums = {.weight = 4,
            .loss = 2,
            .label = 1,
            .label_squared = 1,
            .prediction = 1.5,
            .correct = 3,
            .squared_error = 1};
  m.auc = {{1, 2, 0}, {2, 1, 1}};
  CHECK(compute_metric("loss", m).value == 0.5);
  CHECK(compute_metric("logloss", m).value == 0.5);
  CHECK(compute_metric("accuracy", m).value == 0.75);
  CHECK(compute_metric("accuracy", m).higher_is_better);
  CHECK(compute_metric("rmse", m).value == 0.5);
  CHECK(compute_metric("calibration", m).value == 1.5);
  const double entropy = -0.25 * std::log(0.25) - 0.75 * std::log(0.75);  // of one label in four
  CHECK(compute_metric("normalized_entropy", m).value == Approx(0.5 / entropy));
  CHECK_FALSE(compute_metric("normalized_entropy", m).higher_is_better);
  CHECK(compute_metric("auc", m).value == Approx(2.5 / 3));
}

TEST_CASE("without records every metric is NaN, and there is no best constant", "[metrics]") {
  for (const LossInfo& info : kLosses) {
    const char* const loss = info.name;
    REQUIRE_FALSE(supported_metrics(loss).empty());
    for (const std::string& name : supported_metrics(loss)) {
      CHECK(std::isnan(compute_metric(name, {}).value));
    }
    const auto& known = supported_metrics(loss);
    for (const auto& names :
         {selectable_metrics(loss), default_metrics(loss, true), default_metrics(loss, false)}) {
      CHECK(std::ranges::all_of(names, [&](const std::string& name) {
        return std::ranges::find(known, name) != known.end();
      }));
    }
    CHECK_FALSE(best_constant_loss(loss, 1, {}));
  }
  CHECK(supported_metrics("triplet").empty());
}

TEST_CASE("the best constant's loss is entropy or variance", "[metrics]") {
  OutputMetrics m;
  m.sums = {.weight = 8, .label = 2, .label_squared = 5};
  CHECK(*best_constant_loss("logistic", 1, m) ==
        Approx(-0.25 * std::log(0.25) - 0.75 * std::log(0.75)));
  CHECK(*best_constant_loss("squared", 1, m) == Approx(5.0 / 8 - 1.0 / 16));
  CHECK_FALSE(best_constant_loss("squared", 3, m));
  // Labels 1000000 and 1000003, and labels that are all 0.1, with the rounding of their sums.
  const OutputMetrics far{
      .sums = {.weight = 2, .label = 2000003, .label_squared = 2000006000009.0}};
  CHECK(*best_constant_loss("squared", 1, far) == Approx(2.25));
  const OutputMetrics same{.sums = {.weight = 10, .label = 1, .label_squared = 0.1 + 1e-14}};
  CHECK(*best_constant_loss("squared", 1, same) == 0.0);
  CHECK(*best_constant_loss("poisson", 1, m) == Approx(0.25 - 0.25 * std::log(0.25)));
  CHECK(*best_constant_loss("hinge", 1, m) == Approx(0.5));  // of -1: a quarter has the loss 2
  CHECK(*best_constant_loss("bpr", 1, m, 4) == Approx(std::log(2.0)));
  CHECK(*best_constant_loss("sampled_softmax", 1, m, 4) == Approx(std::log(5.0)));
  for (const char* loss : {"absolute", "huber", "quantile"})
    CHECK_FALSE(best_constant_loss(loss, 1, m));
  CHECK_FALSE(best_constant_loss("softmax_cross_entropy", 1, m));  // without class counts
  m.class_counts = {2, 0, 2, 4};
  CHECK(*best_constant_loss("softmax_cross_entropy", 1, m) == Approx(1.5 * std::log(2.0)));
  m.sums.weight = 8e-7;  // far below a unit of the counts
  CHECK_FALSE(best_constant_loss("softmax_cross_entropy", 1, m));
  m.sums.weight = 8.0 / double(kClassUnits);
  CHECK(best_constant_loss("softmax_cross_entropy", 1, m));
  m.sums.weight = 8;
  m.sums.label = 8;
  CHECK(*best_constant_loss("logistic", 1, m) == 0.0);
}

TEST_CASE("normalized entropy has no value if all labels are equal", "[metrics]") {
  OutputMetrics m;
  m.sums = {.weight = 4, .loss = 2, .label = 4};
  CHECK(std::isnan(compute_metric("normalized_entropy", m).value));
}

TEST_CASE("merged metrics are computed from all records and are not a mean of means", "[metrics]") {
  OutputMetrics a, b;
  a.sums = {.weight = 1, .loss = 1};
  a.class_counts = {1};
  a.auc = {{3, 1, 0}};
  b.sums = {.weight = 3, .loss = 0.6};
  b.class_counts = {1, 2};
  b.auc = {{3, 0, 1}, {4, 0, 2}};
  merge(a, b);
  CHECK(compute_metric("loss", a).value == Approx(0.4));
  CHECK(a.class_counts == std::vector<uint64_t>{2, 2});
  CHECK(a.auc == std::vector<AucBucket>{{3, 1, 1}, {4, 0, 2}});
}
