// AdamW:  w -= lr weight_decay w, and then the update of Adam.
// Source: Loshchilov, Hutter 2019, "Decoupled weight decay regularization", in the form of PyTorch:
// the decay is multiplied by the learning rate with its schedule, but not by the bias correction.
// Lazy on rows, like Adam: a row without a gradient in a step does not decay. Slots: those of Adam.
#pragma once

#include "shared/optim/adam.h"
#include "shared/optim/step_rate.h"
#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct AdamW : Adam {
  AdamW(const OptimizerSpec& spec, const StepRate& rate)
      : Adam(spec, rate.rate), kept_(1.0F - rate.plain * spec.weight_decay) {}
  void operator()(float g, float& w, float& m, float& v) const {
    w *= kept_;
    Adam::operator()(g, w, m, v);
  }

 private:
  float kept_;
};

}  // namespace downpour::optim
