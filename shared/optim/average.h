// Average of the weights of a row over its updates:
//   n += 1;  d_n = min(d, (1 + n) / (10 + n));  e += (1 - d_n) (w - e)
// Source: Polyak, Juditsky 1992, in the exponential form of Keras (`use_ema`, `ema_momentum`). The
// smaller decay of the first updates is that of TensorFlow's ExponentialMovingAverage with
// `num_updates`. Without it, a row with few updates would keep its initial value as its average.
// A row without a gradient in a step stays unchanged. Stored: e, starts at w; n, starts at 0. At
// 2^24 updates n stops growing.
#pragma once

#include <algorithm>
#include <cstdint>

namespace downpour::optim {

/// Adds the weights of an update to the averages. `average`: dim averages, and then n.
inline void average_weights(float decay, uint32_t dim, const float* weights, float* average) {
  float& n = average[dim];
  n += 1.0F;
  const float rate = 1.0F - std::min(decay, (1.0F + n) / (10.0F + n));
#pragma GCC ivdep  // weights and averages do not overlap
  for (uint32_t i = 0; i < dim; ++i) average[i] += rate * (weights[i] - average[i]);
}

inline void start_average(uint32_t dim, const float* weights, float* average) {
  std::copy_n(weights, dim, average);
  average[dim] = 0.0F;
}

}  // namespace downpour::optim
