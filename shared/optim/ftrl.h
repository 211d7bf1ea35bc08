// FTRL-Proximal:  n += g^2;  z += g - sigma w;
//   w = 0 if |z| <= l1, else -(z - sign(z) l1) / (1 / eta + l2)  with  eta = alpha / (beta +
//   sqrt(n)), the rate of the weight; sigma is the change of 1 / eta since its last update
// Source: McMahan et al. 2013, "Ad click prediction: a view from the trenches", algorithm 1; alpha
// is the learning rate. Slots: z, which starts at 0, and n, which starts at initial_accumulator.
//
// alpha changes with a schedule, and when a run is resumed with another learning rate, and the
// alpha of the last update is not stored. But a weight other than 0 determines the old 1 / eta,
// because its sign is that of -z. Inserted into the formula of z, this gives
//   z = g - w (1 / eta + l2) - sign(w) l1  with the new eta.
// For a weight of 0 the term with sigma is 0. So a smaller alpha makes smaller steps. With sigma
// = (sqrt(n + g^2) - sqrt(n)) / alpha it would instead shrink every weight that a gradient reaches.
#pragma once

#include <cmath>

#include "shared/tensor/optimizers.h"

namespace downpour::optim {

struct Ftrl {
  Ftrl(const OptimizerSpec& spec, float rate)
      : inverse_alpha_(1.0F / std::fmax(rate, kRateMin)),
        beta_(spec.beta),
        l1_(spec.l1),
        l2_(spec.l2) {}
  void operator()(float g, float& w, float& z, float& n) const {
    n += g * g;
    const float inverse_rate = (beta_ + std::sqrt(n)) * inverse_alpha_ + l2_;
    z = g + (w == 0.0F ? z : -w * inverse_rate - std::copysign(l1_, w));
    w = std::fabs(z) <= l1_ ? 0.0F : -(z - std::copysign(l1_, z)) / inverse_rate;
  }
  void start(const OptimizerSpec& spec, float /*w*/, float& z, float& n) const {
    n = spec.initial_accumulator;
    z = 0.0F;
  }

 private:
  static constexpr float kRateMin = 1e-12F;  // a schedule may end at 0
  float inverse_alpha_;
  float beta_;
  float l1_;
  float l2_;
};

}  // namespace downpour::optim
