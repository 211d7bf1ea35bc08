// The names of metrics: which a loss has, which a job may choose, and which it has by default.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "shared/job/losses.h"

namespace downpour {

/// Returns the metrics that a job may name for an output, in the order of error messages. Nothing
/// for an unknown loss.
inline std::vector<std::string> selectable_metrics(std::string_view loss) {
  std::vector<std::string> names;
  if (const LossInfo* const info = find_loss(loss)) {
    for (const char* const name : info->metrics)
      if (name != nullptr) names.emplace_back(name);
  }
  return names;
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
  if (loss == "logistic" && !one_column) return {"logloss", "calibration"};
  if (loss == "logistic") return {"auc", "logloss", "calibration"};
  return selectable_metrics(loss);
}

}  // namespace downpour
