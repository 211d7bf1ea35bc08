// Losses: loss, gradient, predictions and metric sums of a chunk of records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/metrics/sums.h"
#include "shared/model/gemm.h"
#include "shared/model/program.h"

namespace downpour::model {

/// A chunk of records of one output. Arrays start at its first record.
struct LossChunk {
  size_t rows = 0;
  uint32_t width = 1;
  ConstMatrix x;  // the output's inputs
  // z = offset + unit * x is the logit, or for squared loss the value. `unit` is 1 for other
  // losses.
  float offset = 0.0F, unit = 1.0F;
  const float* targets = nullptr;  // [rows, width]; for softmax [rows], class numbers
  /// [rows]; null: all 1. A record with a weight of 0 or less, or NaN, counts nowhere.
  const float* weights = nullptr;
  float scale = 1.0F;  // factor of the gradient
  /// Null data: no gradient wanted. Set to, or increased by, scale * weight * d loss / d x.
  Matrix gradient;
  bool accumulate = false;
  float* scratch = nullptr;  // [rows * width] floats

  OutputSums* sums = nullptr;
  std::span<uint64_t> class_counts;  // softmax, [width]
};

/// Adds the losses and metric sums of a chunk, and computes its gradient.
/// - logistic: loss = max(z, 0) - z y + ln(1 + e^-|z|), with y clamped to [0, 1]. A prediction is
///   correct if z > 0 and y > 0.5 agree.
/// - softmax: loss = ln(sum e^x) - x[class]. A class outside [0, width) is clamped and never counts
///   as correct. `prediction` is the predicted class; the squared error is 0.
/// - squared: loss = (z - y)^2. The gradient is that of the loss divided by unit^2, which is the
///   loss in units of `unit`: 2 (z - y) / unit.
/// For a vector target the loss is the mean over its elements. So are its gradient, correctness and
/// squared error. Label and prediction are those of the first element.
void loss_and_gradient(Loss loss, const LossChunk& chunk);

/// Writes predictions [rows, output.width]: sigmoid, softmax, or the value itself.
void predict(const Output& output, ConstMatrix x, size_t rows, float* predictions);

/// Returns the sum of the weights above 0.
double sum_weights(std::span<const float> weights);

}  // namespace downpour::model
