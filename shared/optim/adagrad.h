// Adagrad, diagonal:  a += g^2;  w -= lr * g / (sqrt(a) + epsilon)
// Source: Duchi, Hazan, Singer 2011, JMLR 12:2121. Epsilon is outside the root, as in PyTorch.
// Slot: a, starts at initial_accumulator.
#pragma once

#include <cmath>

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct Adagrad {
  Adagrad(const OptimizerSpec& spec, float rate) : rate_(rate), epsilon_(spec.epsilon) {}
  void operator()(float g, float& w, float& a) const {
    a += g * g;
    w -= rate_ * g / (std::sqrt(a) + epsilon_);
  }
  void start(const OptimizerSpec& spec, float /*w*/, float& a) const {
    a = spec.initial_accumulator;
  }

 private:
  float rate_;
  float epsilon_;
};

}  // namespace downpour::optim
