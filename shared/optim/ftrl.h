// FTRL-Proximal:  sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2;
//   w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
// Source: McMahan et al. 2013, "Ad click prediction: a view from the trenches", algorithm 1; alpha
// is the learning rate. Slots: z and n. n starts at initial_accumulator. z starts at 0 for a weight
// of 0, otherwise at the value for which the formula returns the initial weight. So a weight keeps
// its initial value until its first gradient.
#pragma once

#include <cmath>

#include "shared/tensor/optimizers.h"

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
  void start(const OptimizerSpec& spec, float w, float& z, float& n) const {
    n = spec.initial_accumulator;
    z = w == 0.0F ? 0.0F
                  : -w * ((beta_ + std::sqrt(n)) * inverse_alpha_ + l2_) - std::copysign(l1_, w);
  }

 private:
  float inverse_alpha_;
  float beta_;
  float l1_;
  float l2_;
};

/// FTRL-Proximal with another alpha in every step. The rate of a weight is eta = alpha / (beta +
/// sqrt(n)), and sigma is the difference between 1 / eta of this update and of the weight's last
/// one, whose alpha is not stored. But a weight other than 0 determines the old 1 / eta, because
///   w = -(z - sign(z) l1) / (1 / eta + l2)  with  sign(w) = -sign(z).
/// Inserted into z += g - sigma w, this gives  z = g - w (1 / eta + l2) - sign(w) l1  with the new
/// eta. For a weight of 0 the term with sigma is 0. So a smaller alpha makes smaller steps. The
/// formula for a constant alpha would instead shrink every weight that a gradient reaches.
struct ScheduledFtrl {
  ScheduledFtrl(const OptimizerSpec& spec, float rate)
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

 private:
  static constexpr float kRateMin = 1e-12F;  // a schedule may end at 0
  float inverse_alpha_;
  float beta_;
  float l1_;
  float l2_;
};

}  // namespace downpour::optim
