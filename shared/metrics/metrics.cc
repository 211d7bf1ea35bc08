#include "shared/metrics/metrics.h"

#include <cmath>
#include <limits>

#include "shared/base/check.h"
#include "shared/metrics/auc.h"

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

}  // namespace

MetricValue compute_metric(std::string_view name, const OutputMetrics& metrics) {
  const OutputSums& sums = metrics.sums;
  const std::string text(name);
  if (name == "loss" || name == "logloss" || name == "mae" || name == "pinball")
    return {text, ratio(sums.loss, sums.weight), false};
  if (name == "accuracy") return {text, ratio(sums.correct, sums.weight), true};
  if (name == "rmse") return {text, std::sqrt(ratio(sums.squared_error, sums.weight)), false};
  if (name == "calibration") return {text, ratio(sums.prediction, sums.label), false};
  DP_CHECK(name == "auc", name);
  return {text, auc_value(metrics.auc), true};
}

std::optional<double> best_constant_loss(std::string_view loss, uint32_t target_width,
                                         const OutputMetrics& metrics) {
  const OutputSums& sums = metrics.sums;
  if (target_width != 1 || !(sums.weight > 0)) return std::nullopt;
  const double mean = sums.label / sums.weight;
  if (loss == "logistic") return entropy_term(mean) + entropy_term(1.0 - mean);
  if (loss == "softmax_cross_entropy") return class_entropy(metrics.class_counts);
  if (loss == "poisson") return mean > 0 ? mean - mean * std::log(mean) : 0.0;
  if (loss != "squared") return std::nullopt;  // the best constant does not follow from sums
  return std::fmax(0.0, sums.label_squared / sums.weight - mean * mean);
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
