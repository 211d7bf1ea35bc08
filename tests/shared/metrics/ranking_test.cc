#include "shared/metrics/ranking.h"

#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/metrics/auc.h"
#include "shared/metrics/metrics.h"

namespace downpour {
namespace {

struct BinaryCase {
  const char* name;
  std::vector<int> logits;  // in units of 1/64
  std::vector<int> labels;
  RankingMetrics figures;
};

struct NumberCase {
  const char* name;
  std::vector<double> targets, predictions, weights;
  double r2 = 0;
};

#include "tests/shared/metrics/golden.inc"

/// Returns the metrics of every `step`-th record from `first` on.
OutputMetrics metrics_of(const BinaryCase& test, size_t first, size_t step) {
  AucHistogram histogram;
  for (size_t i = first; i < test.logits.size(); i += step)
    histogram.add(float(test.logits[i]) / 64.0F, float(test.labels[i]));
  OutputMetrics metrics;
  metrics.auc = histogram.to_sparse();
  return metrics;
}

OutputMetrics metrics_of(const NumberCase& test, size_t first, size_t step) {
  OutputMetrics metrics;
  for (size_t i = first; i < test.targets.size(); i += step) {
    const double y = test.targets[i], weight = test.weights[i];
    const double difference = test.predictions[i] - y;
    metrics.sums += {.weight = weight,
                     .label = weight * y,
                     .label_squared = weight * y * y,
                     .squared_error = weight * difference * difference};
  }
  return metrics;
}

template <typename Case>
OutputMetrics merged(const Case& test) {
  OutputMetrics all;
  for (const size_t worker : {2U, 0U, 1U}) merge(all, metrics_of(test, worker, 3));
  return all;
}

TEST_CASE("ranking metrics are those of scikit-learn, also merged from three workers",
          "[metrics][ranking]") {
  for (const BinaryCase& test : kBinaryCases) {
    CAPTURE(test.name);
    for (const OutputMetrics& metrics : {metrics_of(test, 0, 1), merged(test)}) {
      for (const RankingMetric& metric : kRankingMetrics) {
        CAPTURE(metric.name);
        if (std::isnan(test.figures.*metric.value)) continue;  // of groups
        const MetricValue value = compute_metric(metric.name, metrics);
        CHECK(value.value == Approx(test.figures.*metric.value).epsilon(1e-12));
        CHECK(value.higher_is_better);
      }
    }
  }
}

TEST_CASE("r2 is that of scikit-learn, with weights and merged from three workers",
          "[metrics][ranking]") {
  for (const NumberCase& test : kNumberCases) {
    CAPTURE(test.name);
    // The difference of two sums loses digits where the mean is large.
    CHECK(compute_metric("r2", metrics_of(test, 0, 1)).value == Approx(test.r2).epsilon(1e-9));
    CHECK(compute_metric("r2", merged(test)).value == Approx(test.r2).epsilon(1e-9));
  }
  CHECK(compute_metric("r2", {}).higher_is_better);
}

TEST_CASE("metrics without a definition are NaN", "[metrics][ranking]") {
  const uint32_t zero = auc_bucket(0.0F);
  const auto negatives = ranking_metrics(std::vector<AucBucket>{{zero - 1, 5, 0}});
  CHECK(std::isnan(negatives.auc));
  CHECK(std::isnan(negatives.pr_auc));
  CHECK(std::isnan(negatives.precision));
  CHECK(std::isnan(negatives.recall));
  CHECK(std::isnan(negatives.f1));
  const auto missed = ranking_metrics(std::vector<AucBucket>{{zero - 1, 5, 3}});
  CHECK(std::isnan(missed.precision));
  CHECK(missed.recall == 0);
  CHECK(missed.f1 == 0);
  // All labels are equal.
  const OutputSums same{.weight = 4, .label = 12, .label_squared = 36, .squared_error = 1};
  CHECK(std::isnan(compute_metric("r2", {.sums = same}).value));
}

TEST_CASE("a logit of 0 is predicted positive, and the bucket below 0 is not",
          "[metrics][ranking]") {
  AucHistogram histogram;
  histogram.add(0.0F, 1);
  histogram.add(-0.0F, 1);
  histogram.add(std::nextafter(0.0F, -1.0F), 1);
  histogram.add(1e-9F, 0);
  const RankingMetrics metrics = ranking_metrics(histogram.to_sparse());
  CHECK(metrics.precision == Approx(2.0 / 3));
  CHECK(metrics.recall == Approx(2.0 / 3));
  // A message may carry merged buckets. They never join the two sides of 0.
  std::vector<AucBucket> coarse = histogram.to_sparse();
  coarsen_buckets(coarse, 2);
  CHECK(ranking_metrics(coarse).recall == Approx(2.0 / 3));
}

}  // namespace
}  // namespace downpour
