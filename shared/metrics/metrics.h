// Metrics, computed by name from merged sums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/metrics/sums.h"

namespace downpour {

/// One metric. `value` is NaN if the sums do not define it (no records, or only one class).
struct MetricValue {
  std::string name;
  double value = 0;
  bool higher_is_better = false;  // false for calibration too, whose best value is 1
};

/// Computes one metric. An unknown name is a programmer error, because building the job checks the
/// names.
/// - "loss", "logloss": loss / weight
/// - "accuracy": correct / weight
/// - "top_k_accuracy": in_top_k / weight
/// - "normalized_entropy": mean loss / entropy of the mean label
/// - "mae": absolute_error / weight
/// - "rmse": square root of squared_error / weight
/// - "r2": 1 - mean squared error / variance of the label; only of a target of one element
/// - "calibration": mean prediction / mean label
/// - "auc", "pr_auc", "precision", "recall", "f1": RankingMetrics (ranking.h)
MetricValue compute_metric(std::string_view name, const OutputMetrics& metrics);

/// Returns the mean loss of the best constant prediction on the same records, as a baseline for the
/// loss of the model: the entropy of the mean label (logistic), the entropy of the class counts
/// (softmax), the variance of the label (squared), and for equal scores of a record and its
/// `negatives` ln 2 (bpr) or ln(1 + negatives) (sampled_softmax). Returns nothing if there are no
/// records, for softmax without class counts or with weights that the counts can't express, or for
/// vector targets (`target_width` > 1), because the sums do not separate their elements.
std::optional<double> best_constant_loss(std::string_view loss, uint32_t target_width,
                                         const OutputMetrics& metrics, uint32_t negatives = 0);

/// Adds `from` to `into`: sums, buckets and class counts. Batches, shards and workers are merged
/// only by this function.
void merge(OutputMetrics& into, const OutputMetrics& from);

}  // namespace downpour
