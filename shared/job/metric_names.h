// The names of metrics: which a loss has, which a job may choose, and which it has by default.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace downpour {

/// Returns the metrics that compute_metric() knows for a loss ("logistic", "softmax_cross_entropy",
/// "squared"), or nothing for an unknown loss.
inline const std::vector<std::string>& supported_metrics(std::string_view loss) {
  static const std::vector<std::string> logistic = {"auc",  "logloss",     "accuracy",
                                                    "rmse", "calibration", "loss"};
  static const std::vector<std::string> softmax = {"accuracy", "logloss", "loss"};
  static const std::vector<std::string> squared = {"rmse", "calibration", "loss"};
  static const std::vector<std::string> none;
  if (loss == "logistic") return logistic;
  if (loss == "softmax_cross_entropy") return softmax;
  if (loss == "squared") return squared;
  return none;
}

/// Returns the metrics that a job may name for an output, in the order of error messages.
inline std::vector<std::string> selectable_metrics(std::string_view loss) {
  if (loss == "logistic") return {"auc", "logloss", "accuracy", "calibration", "rmse"};
  if (loss == "softmax_cross_entropy") return {"accuracy", "logloss"};
  return {"rmse"};
}

/// Returns the metrics of an output that names none. Only an output of one column has an AUC.
inline std::vector<std::string> default_metrics(std::string_view loss, bool one_column) {
  if (loss == "logistic" && !one_column) return {"logloss", "calibration"};
  if (loss == "logistic") return {"auc", "logloss", "calibration"};
  if (loss == "softmax_cross_entropy") return {"accuracy", "logloss"};
  return {"rmse"};
}

}  // namespace downpour
