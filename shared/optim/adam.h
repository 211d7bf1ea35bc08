// Adam, lazy on rows:  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//   w -= lr_t m / (sqrt(v) + epsilon)  with  lr_t = lr sqrt(1 - b2^t) / (1 - b1^t)
// Source: Kingma, Ba 2015, section 2, last paragraph ("epsilon hat"), the form that TensorFlow
// uses. A row without a gradient in a step stays unchanged: its moments do not decay. Slots: m and
// v, both start at 0. The constructor's `rate` is lr_t.
#pragma once

#include <cmath>
#include <cstdint>

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct Adam {
  Adam(const OptimizerSpec& spec, float rate)
      : rate_(rate), beta1_(spec.beta1), beta2_(spec.beta2), epsilon_(spec.epsilon) {}
  void operator()(float g, float& w, float& m, float& v) const {
    m = beta1_ * m + (1.0F - beta1_) * g;
    v = beta2_ * v + (1.0F - beta2_) * (g * g);
    w -= rate_ * m / (std::sqrt(v) + epsilon_);
  }
  void start(const OptimizerSpec& /*spec*/, float /*w*/, float& m, float& v) const {
    m = 0.0F;
    v = 0.0F;
  }
  /// Returns lr_t; `step` is t, the number of steps that m and v have seen, including this one.
  static float step_rate(const OptimizerSpec& spec, uint64_t step) {
    const double t = double(step);
    return float(double(spec.learning_rate) * std::sqrt(1.0 - std::pow(double(spec.beta2), t)) /
                 (1.0 - std::pow(double(spec.beta1), t)));
  }

 private:
  float rate_;
  float beta1_;
  float beta2_;
  float epsilon_;
};

}  // namespace downpour::optim
