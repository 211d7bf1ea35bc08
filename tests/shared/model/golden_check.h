// Compares one training step with the values of a golden file.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/shared/model/support.h"

namespace downpour::model {

/// Gives the trial the weights of `variables`, in the order of Graph::tables() and their members.
template <typename Variable>
void set_weights(Trial& trial, const std::vector<Variable>& variables) {
  REQUIRE(trial.values.size() == variables.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    const std::vector<float>& weights = variables[v].values;
    REQUIRE(trial.values[v].size() == weights.size());
    std::copy(weights.begin(), weights.end(), trial.values[v].begin());
  }
}

/// `margin`: what rounding of float32 may add to a gradient near zero.
template <typename Variable>
void check_gradients(const Trial& trial, const std::vector<Variable>& variables, double margin) {
  for (size_t v = 0; v < variables.size(); ++v) {
    for (size_t i = 0; i < trial.values[v].size(); ++i) {
      CAPTURE(variables[v].name, i);
      CHECK(trial.gradients[v][i] == Approx(variables[v].gradient[i]).epsilon(1e-5).margin(margin));
    }
  }
}

inline void check_predictions(Trial& trial, const std::vector<float>& wanted) {
  const std::vector<float> predictions = predictions_of(trial);
  REQUIRE(predictions.size() == wanted.size());
  for (size_t r = 0; r < wanted.size(); ++r)
    CHECK(predictions[r] == Approx(wanted[r]).epsilon(1e-5));
}

}  // namespace downpour::model
