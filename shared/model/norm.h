// Norm: the kernels of layer normalization. Both run on the calling thread.
#pragma once

#include <cstddef>

#include "shared/model/gemm.h"

namespace downpour::model {

/// y = (x - mean) / sqrt(variance + 1e-5) * (1 + scale) + shift, where mean and variance (divided
/// by width) are those of a record's columns. The scale is stored as its difference from 1, so that
/// it starts at 0 like a bias.
/// Shapes: x, y [rows, width]; scale, shift [width]. Numerics: float32; the variance is the mean of
/// squared differences from the mean. Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.
void normalize(ConstMatrix x, size_t rows, size_t width, const float* scale, const float* shift,
               Matrix y);

/// Gradients of normalize() from the gradient `d` of y. Sets the gradients of scale and shift, or
/// with `add` adds to them. Sets x_gradient, or with `accumulate` adds to it, unless its data is
/// null.
void normalize_backward(ConstMatrix x, ConstMatrix d, size_t rows, size_t width, const float* scale,
                        bool add, float* scale_gradient, float* shift_gradient, bool accumulate,
                        Matrix x_gradient);

}  // namespace downpour::model
