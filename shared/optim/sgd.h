// Stochastic gradient descent:  w -= lr * g
#pragma once

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct Sgd {
  Sgd(const OptimizerSpec& /*spec*/, float rate) : rate_(rate) {}
  void operator()(float g, float& w) const { w -= rate_ * g; }

 private:
  float rate_;
};

}  // namespace downpour::optim
