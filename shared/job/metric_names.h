// The names of metrics: which a loss has, which a job may choose, and which it has by default.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "shared/job/losses.h"

namespace downpour {

/// Returns the metrics of a loss in LossInfo, the default ones first. Nothing for an unknown loss.
inline std::vector<std::string> own_metrics(std::string_view loss) {
  std::vector<std::string> names;
  if (const LossInfo* const info = find_loss(loss)) {
    for (const char* const name : info->metrics)
      if (name != nullptr) names.emplace_back(name);
  }
  return names;
}

/// Returns the metrics that a job may name for an output, in the order of error messages. Those
/// that depend only on the type of the target follow the loss's own. Nothing for an unknown loss.
inline std::vector<std::string> selectable_metrics(std::string_view loss) {
  std::vector<std::string> names = own_metrics(loss);
  const LossInfo* const info = find_loss(loss);
  if (info != nullptr && info->compares) names.insert(names.end(), {"gauc", "ndcg"});
  if (info != nullptr && info->target == TargetType::kBinary && !info->compares)
    names.insert(names.end(), {"pr_auc", "precision", "recall", "f1", "gauc", "ndcg"});
  if (loss == "logistic") names.emplace_back("normalized_entropy");
  if (info != nullptr && info->target == TargetType::kClass) names.emplace_back("top_k_accuracy");
  if (info != nullptr && info->is_regression()) {
    if (std::ranges::find(names, "mae") == names.end()) names.emplace_back("mae");
    names.emplace_back("r2");
  }
  return names;
}

/// Returns true if the metric has a value only for an output of one column.
constexpr bool needs_one_column(std::string_view metric) {
  return metric == "auc" || metric == "pr_auc" || metric == "precision" || metric == "recall" ||
         metric == "f1" || metric == "r2" || metric == "gauc" || metric == "ndcg" ||
         metric == "normalized_entropy";
}

/// Returns the metrics that compute_metric() knows for a loss, or nothing for an unknown loss.
inline std::vector<std::string> supported_metrics(std::string_view loss) {
  std::vector<std::string> names = selectable_metrics(loss);
  if (loss == "squared") names.emplace_back("calibration");
  if (!names.empty() && std::ranges::find(names, "loss") == names.end()) names.emplace_back("loss");
  return names;
}

/// Returns the metrics of an output that names none. Only an output of one column has an AUC.
inline std::vector<std::string> default_metrics(std::string_view loss, bool one_column) {
  std::vector<std::string> names = own_metrics(loss);
  if (loss == "logistic") names = {"auc", "logloss", "calibration"};
  if (!one_column) std::erase_if(names, needs_one_column);
  return names;
}

}  // namespace downpour
