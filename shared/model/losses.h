// Losses: value, gradient, predictions and metric sums of a chunk of records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/metrics/sums.h"
#include "shared/model/gemm.h"
#include "shared/model/program.h"

namespace downpour::model {

/// A chunk of one output. Arrays start at its first record.
struct LossChunk {
  size_t rows = 0;
  uint32_t width = 1;
  ConstMatrix x;                   // logits, or values for squared
  const float* targets = nullptr;  // [rows, width]; softmax: [rows] classes
  const float* weights =
      nullptr;         // [rows]; null: all 1. Not above 0 (or no number): the record counts nowhere
  float scale = 1.0F;  // of the gradient
  Matrix gradient;     // data null: none wanted. Gets or is added scale * weight * d loss / d x
  bool accumulate = false;
  float* scratch = nullptr;  // [rows * width] floats

  OutputSums* sums = nullptr;
  std::span<uint64_t> class_counts;  // softmax, [width]
};

/// logistic: loss = max(x, 0) - x y + ln(1 + e^-|x|), y clamped to [0, 1]; right where x > 0 and y
/// > 0.5 agree. softmax: ln(sum e^x) - x[class]; classes are clamped to [0, width), and then never
/// right. squared: (x - y)^2; gradient 2 (x - y). A vector target's loss (and its gradient,
/// correctness, squared error) is the mean over its elements; label and prediction are those of the
/// first. Softmax's `prediction` is the class predicted, its squared error is 0.
void loss_and_gradient(Loss loss, const LossChunk& chunk);

/// Predictions [rows, width]: sigmoid, softmax, or the value itself.
void predict(Loss loss, ConstMatrix x, size_t rows, uint32_t width, float* predictions);

/// Sum of the weights that count.
double sum_weights(std::span<const float> weights);

}  // namespace downpour::model
