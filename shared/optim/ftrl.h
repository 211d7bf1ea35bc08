// FTRL-Proximal:  sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2;
//   w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
// Source: McMahan et al. 2013, "Ad click prediction: a view from the trenches", algorithm 1 (alpha
// = the rate). Slots: n starts at initial_accumulator; z starts at 0 for a weight of 0, else where
// the formula gives the initial weight back, so that a weight stays as initialized until its first
// gradient and moves on from there.
#pragma once

#include <cmath>

#include "shared/tensor/variables.h"

namespace downpour::optim {

struct Ftrl {
  Ftrl(const OptimizerSpec& spec, float rate)
      : inverse_alpha_(1.0F / rate), beta_(spec.beta), l1_(spec.l1), l2_(spec.l2) {}
  void operator()(float g, float& w, float& z, float& n) const {
    const float n_new = n + g * g;
    const float root = std::sqrt(n_new);
    const float z_new = z + g - (root - std::sqrt(n)) * inverse_alpha_ * w;
    const float shrunk = z_new - std::copysign(l1_, z_new);
    const float weight = -shrunk / ((beta_ + root) * inverse_alpha_ + l2_);
    z = z_new;
    n = n_new;
    w = std::fabs(z_new) <= l1_ ? 0.0F : weight;
  }
  /// z for a row that starts at weight `w`, with n as given.
  float start(float w, float n) const {
    if (w == 0.0F) return 0.0F;
    return -w * ((beta_ + std::sqrt(n)) * inverse_alpha_ + l2_) - std::copysign(l1_, w);
  }

 private:
  float inverse_alpha_;
  float beta_;
  float l1_;
  float l2_;
};

}  // namespace downpour::optim
