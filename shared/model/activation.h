// Activation: the functions that a dense layer or an activation layer applies to each element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/model/gemm.h"

namespace downpour::model {

enum class Activation : uint8_t { kNone, kRelu, kSigmoid, kLeakyRelu, kGelu, kSilu, kTanh };

struct ActivationInfo {
  Activation activation = Activation::kNone;
  std::string_view name;  // in job files
  /// True if the derivative is a function of the activation's input. Otherwise it is a function of
  /// its result, and a dense layer does not keep the input.
  bool needs_input = false;
  // Sets about half of the inputs to 0, or nearly. Decides the initial values of a dense layer.
  bool rectifies = false;
};

inline constexpr std::array kActivations{
    ActivationInfo{.activation = Activation::kNone, .name = ""},
    ActivationInfo{.activation = Activation::kRelu, .name = "relu", .rectifies = true},
    ActivationInfo{.activation = Activation::kSigmoid, .name = "sigmoid"},
    ActivationInfo{.activation = Activation::kLeakyRelu, .name = "leaky_relu", .rectifies = true},
    ActivationInfo{
        .activation = Activation::kGelu, .name = "gelu", .needs_input = true, .rectifies = true},
    ActivationInfo{
        .activation = Activation::kSilu, .name = "silu", .needs_input = true, .rectifies = true},
    ActivationInfo{.activation = Activation::kTanh, .name = "tanh"}};

constexpr const ActivationInfo& info_of(Activation activation) {
  return kActivations[size_t(activation)];
}

/// Returns the activation that a valid job names.
Activation activation_of(std::string_view name);

/// x = activation(x + bias). `bias` may be null. x is [rows, width].
void add_bias_activate(Matrix x, size_t rows, size_t width, const float* bias,
                       Activation activation);

/// to = activation(from):
///   relu max(x, 0); leaky_relu x or 0.01 x (Maas et al. 2013); sigmoid 1 / (1 + e^-x); tanh;
///   silu x sigmoid(x) (Elfwing et al. 2017); gelu x sigmoid(2 u), with u = sqrt(2 / pi) (x +
///   0.044715 x^3), the tanh form of Hendrycks and Gimpel 2016.
/// Numerics: float32; the error of tanh is below 3e-7, that of silu and gelu below 6e-7 of |x|.
void activate(ConstMatrix from, Matrix to, size_t rows, size_t width, Activation activation);

/// to (+)= gradient * activation'. `at` is the input of the activation if it needs_input, otherwise
/// its result y: the derivative is then 1 or 0.01 (relu and leaky_relu), y (1 - y) (sigmoid) or 1 -
/// y^2 (tanh). Without `accumulate`, `to` may be `gradient` itself.
void activate_backward(ConstMatrix gradient, ConstMatrix at, Matrix to, size_t rows, size_t width,
                       Activation activation, bool accumulate);

}  // namespace downpour::model
