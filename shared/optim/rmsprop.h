// RMSProp, not centered:  v = rho v + (1 - rho) g^2;  w -= lr * g / (sqrt(v) + epsilon)
// Source: Tieleman, Hinton 2012, Coursera lecture 6.5. Epsilon is outside the root, as in PyTorch.
// Lazy on rows: v of a row without a gradient in a step does not decay. Slot: v, starts at 0.
#pragma once

#include <cmath>

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct RmsProp {
  RmsProp(const OptimizerSpec& spec, float rate)
      : rate_(rate), rho_(spec.rho), epsilon_(spec.epsilon) {}
  void operator()(float g, float& w, float& v) const {
    v = rho_ * v + (1.0F - rho_) * (g * g);
    w -= rate_ * g / (std::sqrt(v) + epsilon_);
  }
  void start(const OptimizerSpec& /*spec*/, float /*w*/, float& v) const { v = 0.0F; }

 private:
  float rate_;
  float rho_;
  float epsilon_;
};

}  // namespace downpour::optim
