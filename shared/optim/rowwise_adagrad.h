// Row-wise Adagrad:  a += mean(g^2) over the row;  w -= lr / (sqrt(a) + epsilon) * g
// Source: RWSAdagrad of DLRM (Naumov et al. 2019) and EXACT_ROWWISE_ADAGRAD of FBGEMM. The rate is
// the same for all weights of a row. Slot of a row: a, starts at initial_accumulator.
#pragma once

#include <cmath>

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct RowwiseAdagrad {
  RowwiseAdagrad(const OptimizerSpec& spec, float rate) : rate_(rate), epsilon_(spec.epsilon) {}
  /// Adds a gradient to the slot of its row, and returns the row's rate. `mean_square`: the mean of
  /// the squares of the row's gradient.
  float row_rate(float mean_square, float& a) const {
    a += mean_square;
    return rate_ / (std::sqrt(a) + epsilon_);
  }
  static void start(const OptimizerSpec& spec, float& a) { a = spec.initial_accumulator; }

 private:
  float rate_;
  float epsilon_;
};

}  // namespace downpour::optim
