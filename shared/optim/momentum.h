// Momentum:  v = mu * v + g;  w -= lr * v.   Nesterov:  w -= lr * (g + mu * v)
// Source: Polyak 1964; Sutskever, Martens, Dahl, Hinton 2013, in the form of PyTorch and
// TensorFlow: the velocity does not contain the learning rate, and there is no dampening. Slot: v,
// starts at 0.
#pragma once

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

template <bool kNesterov>
struct Momentum {
  Momentum(const OptimizerSpec& spec, float rate) : rate_(rate), mu_(spec.momentum) {}
  void operator()(float g, float& w, float& v) const {
    v = mu_ * v + g;
    w -= rate_ * (kNesterov ? g + mu_ * v : v);
  }
  void start(const OptimizerSpec& /*spec*/, float /*w*/, float& v) const { v = 0.0F; }

 private:
  float rate_;
  float mu_;
};

}  // namespace downpour::optim
