#include "shared/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "shared/base/check.h"
#include "shared/metrics/auc.h"
#include "shared/metrics/ranking.h"

namespace downpour {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double ratio(double a, double b) { return b != 0 ? a / b : kNaN; }

/// -p ln p; 0 for p = 0.
double entropy_term(double p) { return p > 0 ? -p * std::log(p) : 0.0; }

double class_entropy(const std::vector<uint64_t>& counts) {
  double total = 0;
  for (const uint64_t count : counts) total += double(count);
  double entropy = 0;
  for (const uint64_t count : counts) entropy += entropy_term(ratio(double(count), total));
  return entropy;
}

/// True if the counts are those of the weights. They are integers, so very small weights are
/// rounded and very large ones are capped.
bool counts_fit(const OutputMetrics& metrics) {
  double total = 0;
  for (const uint64_t count : metrics.class_counts) total += double(count);
  const double weight = metrics.sums.weight;
  constexpr double kTolerance = 1e-3;
  return std::min(std::fabs(total / weight - 1), std::fabs(total / kClassUnits / weight - 1)) <
         kTolerance;
}

double mean_loss(const OutputSums& sums) { return ratio(sums.loss, sums.weight); }

/// The entropy of a label that is 1 with the probability `mean`: the loss of the best constant.
double binary_entropy(double mean) { return entropy_term(mean) + entropy_term(1.0 - mean); }

double normalized_entropy(const OutputSums& sums) {
  return ratio(mean_loss(sums), binary_entropy(ratio(sums.label, sums.weight)));
}

/// NaN if the squares show errors that were not added up, as in sums of an older version.
double mean_absolute_error(const OutputSums& sums) {
  if (sums.absolute_error == 0 && sums.squared_error > 0) return kNaN;
  return ratio(sums.absolute_error, sums.weight);
}

/// NaN if the sums of an older version, which lack the count, contradict it.
double top_k_accuracy(const OutputSums& sums) {
  return sums.in_top_k < sums.correct ? kNaN : ratio(sums.in_top_k, sums.weight);
}

/// The variance of the label, or 0 if the sums do not determine it: sums of some thousand equal
/// squares have a relative error of up to 1e-12.
double label_variance(const OutputSums& sums) {
  const double mean = sums.label / sums.weight;
  const double variance = sums.label_squared / sums.weight - mean * mean;
  return variance > 1e-12 * mean * mean ? variance : 0;
}

/// The share of the variance of the label that the model explains; NaN if that is not determined.
double r_squared(const OutputSums& sums) {
  const double variance = sums.weight > 0 ? label_variance(sums) : 0;
  return variance > 0 ? 1 - sums.squared_error / sums.weight / variance : kNaN;
}

/// A metric that follows from sums.
struct Formula {
  std::string_view name;
  bool higher_is_better = false;
  double (*value)(const OutputSums& sums) = nullptr;
};

constexpr std::array kFormulas = {
    Formula{"loss", false, mean_loss},
    Formula{"logloss", false, mean_loss},
    Formula{"pinball", false, mean_loss},
    Formula{"normalized_entropy", false, normalized_entropy},
    Formula{"accuracy", true, [](const OutputSums& s) { return ratio(s.correct, s.weight); }},
    Formula{"top_k_accuracy", true, top_k_accuracy},
    Formula{"mae", false, mean_absolute_error},
    Formula{"rmse", false,
            [](const OutputSums& s) { return std::sqrt(ratio(s.squared_error, s.weight)); }},
    Formula{"r2", true, r_squared},
    Formula{"calibration", false, [](const OutputSums& s) { return ratio(s.prediction, s.label); }},
};

}  // namespace

MetricValue compute_metric(std::string_view name, const OutputMetrics& metrics) {
  std::string text(name);
  if (const RankingMetric* const ranking = find_ranking_metric(name))
    return {std::move(text), ranking_metrics(metrics.auc).*ranking->value, true};
  const auto formula = std::ranges::find(kFormulas, name, &Formula::name);
  DP_CHECK(formula != kFormulas.end(), name);
  return {std::move(text), formula->value(metrics.sums), formula->higher_is_better};
}

std::optional<double> best_constant_loss(std::string_view loss, uint32_t target_width,
                                         const OutputMetrics& metrics, uint32_t negatives) {
  const OutputSums& sums = metrics.sums;
  if (target_width != 1 || !(sums.weight > 0)) return std::nullopt;
  const double mean = sums.label / sums.weight;
  if (loss == "logistic") return binary_entropy(mean);
  if (loss == "hinge") return 2 * std::fmin(mean, 1.0 - mean);  // of a constant of 1 or -1
  if (loss == "bpr") return std::log(2.0);
  if (loss == "sampled_softmax") return std::log1p(double(negatives));
  if (loss == "softmax_cross_entropy") {
    // Training does not count classes.
    if (metrics.class_counts.empty() || !counts_fit(metrics)) return std::nullopt;
    return class_entropy(metrics.class_counts);
  }
  if (loss == "poisson") return mean > 0 ? mean - mean * std::log(mean) : 0.0;
  if (loss != "squared") return std::nullopt;  // the best constant does not follow from sums
  return label_variance(sums);
}

void merge(OutputMetrics& into, const OutputMetrics& from) {
  into.sums += from.sums;
  merge_buckets(into.auc, from.auc);
  if (into.class_counts.size() < from.class_counts.size()) {
    into.class_counts.resize(from.class_counts.size());
  }
  for (size_t i = 0; i < from.class_counts.size(); ++i)
    into.class_counts[i] += from.class_counts[i];
}

}  // namespace downpour
