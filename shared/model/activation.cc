#include "shared/model/activation.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"
#include "shared/job/layers.h"
#include "shared/model/vector_math.h"

namespace downpour::model {
namespace {

static_assert([] {
  for (size_t i = 0; i < kActivations.size(); ++i)
    if (kActivations[i].activation != Activation(i)) return false;
  return true;
}());

// Every value of the keys `activation` and `last` is an activation.
static_assert(std::ranges::all_of(kActivationNames, [](std::string_view name) {
  return std::ranges::find(kActivations, name, &ActivationInfo::name) != kActivations.end();
}));

// Each activation has `value`, and `backward`: d times the derivative at its result y, or at its
// input x.

struct Relu {
  static float value(float x) { return x > 0.0F ? x : 0.0F; }
  static float backward(float d, float y) { return y > 0.0F ? d : 0.0F; }
};
struct LeakyRelu {
  static constexpr float kSlope = 0.01F;
  static float value(float x) { return x > 0.0F ? x : kSlope * x; }
  static float backward(float d, float y) { return y > 0.0F ? d : kSlope * d; }
};
struct Sigmoid {
  static float value(float x) { return sigmoid_fast(x); }
  static float backward(float d, float y) { return d * y * (1.0F - y); }
};
struct Tanh {
  static float value(float x) { return tanh_fast(x); }
  static float backward(float d, float y) { return d * (1.0F - y * y); }
};
struct Silu {
  static float value(float x) { return x * sigmoid_fast(x); }
  static float backward(float d, float x) {
    const float s = sigmoid_fast(x);
    return d * (s + x * s * (1.0F - s));
  }
};
struct Gelu {
  static constexpr float kLinear = 2 * 0.7978845608028654F, kCubic = kLinear * 0.044715F;
  static float value(float x) { return x * sigmoid_fast(x * (kLinear + kCubic * x * x)); }
  static constexpr float kSaturated = 20;  // beyond it the derivative is 0 or 1
  static float backward(float d, float at) {
    const float x = at < -kSaturated ? -kSaturated : at > kSaturated ? kSaturated : at;
    const float s = sigmoid_fast(x * (kLinear + kCubic * x * x));
    return d * (s + x * s * (1.0F - s) * (kLinear + 3 * kCubic * x * x));
  }
};

/// Calls f with the struct of an activation other than kNone.
template <typename F>
void dispatch(Activation activation, const F& f) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return f(Relu{});
    case Activation::kSigmoid:
      return f(Sigmoid{});
    case Activation::kLeakyRelu:
      return f(LeakyRelu{});
    case Activation::kGelu:
      return f(Gelu{});
    case Activation::kSilu:
      return f(Silu{});
    case Activation::kTanh:
      return f(Tanh{});
  }
}

}  // namespace

Activation activation_of(std::string_view name) {
  const auto found = std::ranges::find(kActivations, name, &ActivationInfo::name);
  DP_CHECK(found != kActivations.end(), name);
  return found->activation;
}

void activate(ConstMatrix from, Matrix to, size_t rows, size_t width, Activation activation) {
  if (activation == Activation::kNone) {
    for (size_t r = 0; r < rows; ++r) {
      const float* x = from.data + r * from.stride;
      float* y = to.data + r * to.stride;
      if (x != y) std::memcpy(y, x, width * sizeof(float));
    }
    return;
  }
  dispatch(activation, [&]<typename F>(F) {
    for (size_t r = 0; r < rows; ++r) {
      const float* x = from.data + r * from.stride;
      float* y = to.data + r * to.stride;
#pragma omp simd
      for (size_t j = 0; j < width; ++j) y[j] = F::value(x[j]);
    }
  });
}

void add_bias_activate(Matrix x, size_t rows, size_t width, const float* bias,
                       Activation activation) {
  // The most common case, in a single pass.
  if (bias != nullptr && activation == Activation::kRelu) {
    for (size_t r = 0; r < rows; ++r) {
      float* y = x.data + r * x.stride;
#pragma omp simd
      for (size_t j = 0; j < width; ++j) {
        const float z = y[j] + bias[j];
        y[j] = z > 0.0F ? z : 0.0F;
      }
    }
    return;
  }
  for (size_t r = 0; bias != nullptr && r < rows; ++r) {
    float* y = x.data + r * x.stride;
#pragma omp simd
    for (size_t j = 0; j < width; ++j) y[j] += bias[j];
  }
  if (activation != Activation::kNone) activate(x, x, rows, width, activation);
}

void activate_backward(ConstMatrix gradient, ConstMatrix at, Matrix to, size_t rows, size_t width,
                       Activation activation, bool accumulate) {
  dispatch(activation, [&]<typename F>(F) {
    for (size_t r = 0; r < rows; ++r) {
      const float* d = gradient.data + r * gradient.stride;
      const float* v = at.data + r * at.stride;
      float* t = to.data + r * to.stride;
      if (accumulate) {
#pragma omp simd
        for (size_t k = 0; k < width; ++k) t[k] += F::backward(d[k], v[k]);
      } else {
#pragma omp simd
        for (size_t k = 0; k < width; ++k) t[k] = F::backward(d[k], v[k]);
      }
    }
  });
}

}  // namespace downpour::model
