// Metrics by name, from merged sums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/metrics/sums.h"

namespace downpour {

/// One figure. `value` is NaN where the sums do not define it (no records, one class only).
struct MetricValue {
  std::string name;
  double value = 0;
  bool higher_is_better = false;  // calibration: neither, its best is 1
};

/// Metric names that a loss ("logistic", "softmax_cross_entropy", "squared") knows; empty for an
/// unknown loss. logistic: auc, logloss, accuracy, rmse, calibration, loss. softmax_cross_entropy:
/// accuracy, logloss, loss. squared: rmse, calibration, loss.
const std::vector<std::string>& supported_metrics(std::string_view loss);

/// What is shown where the job names no metrics: auc and logloss; accuracy and logloss; rmse.
const std::vector<std::string>& default_metrics(std::string_view loss);

/// "loss" and "logloss": loss / weight. "accuracy": correct / weight. "rmse": root of squared error
/// / weight. "calibration": mean prediction / mean label. "auc": area under the ROC curve, half
/// credit for ties. An unknown name is a programmer's error (job building checks names).
MetricValue compute_metric(std::string_view name, const OutputMetrics& metrics);

/// The mean loss of the best constant prediction on the same records, to print beside the loss
/// reached: entropy of the mean label (logistic), of the class counts (softmax), variance of the
/// label (squared). None for vector targets (`target_width` > 1), whose elements the sums do not
/// keep apart, and without records.
std::optional<double> best_constant_loss(std::string_view loss, uint32_t target_width,
                                         const OutputMetrics& metrics);

/// Adds `from` to `into`: sums, buckets, class counts. Batches, shards and workers merge by this
/// alone.
void merge(OutputMetrics& into, const OutputMetrics& from);

}  // namespace downpour
