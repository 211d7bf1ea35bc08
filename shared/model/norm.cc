#include "shared/model/norm.h"

#include <algorithm>
#include <cmath>

namespace downpour::model {
namespace {

constexpr float kEpsilon = 1e-5F;

/// The mean and the factor of a record: normalization computes (x - mean) * factor.
struct Moments {
  float mean = 0.0F, factor = 0.0F;
};

Moments moments_of(const float* x, size_t width) {
  float sum = 0.0F, squares = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (size_t j = 0; j < width; ++j) sum += x[j];
  const float mean = sum / float(width);
#pragma omp simd reduction(+ : squares)
  for (size_t j = 0; j < width; ++j) squares += (x[j] - mean) * (x[j] - mean);
  return {mean, 1.0F / std::sqrt(squares / float(width) + kEpsilon)};
}

}  // namespace

void normalize(ConstMatrix x, size_t rows, size_t width, const float* scale, const float* shift,
               Matrix y) {
  for (size_t r = 0; r < rows; ++r) {
    const float* from = x.data + r * x.stride;
    float* to = y.data + r * y.stride;
    const Moments m = moments_of(from, width);
#pragma omp simd
    for (size_t j = 0; j < width; ++j)
      to[j] = (from[j] - m.mean) * m.factor * (1.0F + scale[j]) + shift[j];
  }
}

void normalize_backward(ConstMatrix x, ConstMatrix d, size_t rows, size_t width, const float* scale,
                        bool add, float* scale_gradient, float* shift_gradient, bool accumulate,
                        Matrix x_gradient) {
  if (!add) {
    std::fill_n(scale_gradient, width, 0.0F);
    std::fill_n(shift_gradient, width, 0.0F);
  }
  for (size_t r = 0; r < rows; ++r) {
    const float* from = x.data + r * x.stride;
    const float* g = d.data + r * d.stride;
    const Moments m = moments_of(from, width);
    float sum = 0.0F, product = 0.0F;
#pragma omp simd reduction(+ : sum, product)
    for (size_t j = 0; j < width; ++j) {
      const float normal = (from[j] - m.mean) * m.factor;
      const float inner = g[j] * (1.0F + scale[j]);
      sum += inner;
      product += inner * normal;
      scale_gradient[j] += g[j] * normal;
      shift_gradient[j] += g[j];
    }
    if (x_gradient.data == nullptr) continue;
    float* to = x_gradient.data + r * x_gradient.stride;
    const float mean = sum / float(width), slope = product / float(width);
    const float keep = accumulate ? 1.0F : 0.0F;
#pragma omp simd
    for (size_t j = 0; j < width; ++j) {
      const float normal = (from[j] - m.mean) * m.factor;
      const float back = m.factor * (g[j] * (1.0F + scale[j]) - mean - normal * slope);
      to[j] = back + (keep != 0.0F ? to[j] : 0.0F);
    }
  }
}

}  // namespace downpour::model
