// Losses: loss, gradient, predictions and metric sums of a chunk of records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/metrics/sums.h"
#include "shared/model/gemm.h"
#include "shared/model/program.h"

namespace downpour::model {

/// Limit of the logarithm of a rate of a Poisson output. Its exponential is finite.
constexpr float kLogRateMax = 60.0F;

/// A chunk of records of one output. Arrays start at its first record.
struct LossChunk {
  size_t rows = 0;
  /// Rows of a record: the record itself, then its negatives. Divides `rows`.
  uint32_t group = 1;
  uint32_t width = 1;
  ConstMatrix x;  // the output's inputs
  // z = offset + unit * x is the logit, or for a number as target the value. `unit` is 1 for losses
  // without a scale.
  float offset = 0.0F, unit = 1.0F;
  float option = 0.0F;             // delta or quantile
  float smoothing = 0.0F;          // share of each label that is spread over all classes
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
  uint32_t top_k = 1;                // softmax, for OutputSums::in_top_k
};

/// Adds the losses and metric sums of a chunk, and computes its gradient.
/// - logistic: loss = max(z, 0) - z y + ln(1 + e^-|z|), with y clamped to [0, 1]. A prediction is
///   correct if z > 0 and y > 0.5 agree.
/// - softmax: loss = ln(sum e^x) - x[class]. A class outside [0, width) is clamped and never counts
///   as correct. `prediction` is the predicted class; the errors are 0. A class is among the top k
///   if fewer than k classes are ahead of it: those with a higher x, and those with the same x and
///   a lower number.
/// - squared: loss = (z - y)^2.
/// - absolute: loss = |z - y|.
/// - huber, with d = delta * unit: loss = (z - y)^2 / 2 if |z - y| <= d, otherwise
///   d (|z - y| - d / 2) (Huber 1964).
/// - quantile, with q: loss = q (y - z) if y > z, otherwise (1 - q) (z - y) (Koenker and Bassett
///   1978).
/// - poisson: loss = e^z - y z, the negative log-likelihood without ln y!. The prediction is e^z; z
///   is limited to 60.
/// - hinge: loss = max(0, 1 - s z) with s = 1 if y > 0.5, otherwise -1 (Cortes and Vapnik 1995).
///   The prediction is z, and correct as for logistic. The squared error is 0.
/// - bpr: the loss of a record is the mean over its negatives of ln(1 + e^-(s - s')), where s is
/// the
///   score of the record and s' that of the negative; without negatives 0 (Rendle et al. 2009).
/// - sampled_softmax: the loss of a record is ln(e^s + sum e^s') - s (Yi et al. 2019, without their
///   correction by the sampling probability).
///   Outputs of bpr and sampled_softmax have the width 1. The weight and the sums of a record are
///   those of its first row.
/// With `smoothing` e, logistic and softmax have the gradients for the labels (1 - e) y + e / K of
/// K classes (Szegedy et al. 2016; K = 2 for logistic), as in Keras and PyTorch. Losses and sums
/// are those of the labels as given.
/// The gradients of squared and huber are those of the loss divided by unit^2, of absolute and
/// quantile those of the loss divided by unit: so they do not depend on the target's unit.
/// For a vector target the loss is the mean over its elements. So are its gradient, correctness and
/// errors. Label and prediction are those of the first element. The absolute error is that of
/// numbers and counts; for logistic it is 0.
void loss_and_gradient(Loss loss, const LossChunk& chunk);

/// Writes predictions [rows, output.width]: sigmoid, softmax, e^z, or the value itself. With `raw`
/// writes the arguments of these functions.
void predict(const Output& output, bool raw, ConstMatrix x, size_t rows, float* predictions);

/// Returns the sum of the weights above 0.
double sum_weights(std::span<const float> weights);

}  // namespace downpour::model
