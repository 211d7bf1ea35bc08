#include "shared/model/losses.h"

#include <algorithm>
#include <cmath>

#include "shared/model/vector_math.h"

namespace downpour::model {
namespace {

float weight_of(const LossChunk& chunk, size_t r) {
  if (chunk.weights == nullptr) return 1.0F;
  const float w = chunk.weights[r];
  return w > 0.0F ? w : 0.0F;
}

float clamp_label(float y) {
  y = y > 0.0F ? y : 0.0F;  // NaN becomes 0
  return y < 1.0F ? y : 1.0F;
}

/// One column without weights: the common case, vectorized. `scratch` holds the gradients before
/// scaling.
void logistic_scalar(const LossChunk& c) {
  const float* x = c.x.data;
  const size_t stride = c.x.stride;
  const float offset = c.offset, smoothing = c.smoothing;
  double loss = 0, label = 0, label_squared = 0, prediction = 0, correct = 0, squared = 0;
  float* difference = c.scratch;
#pragma omp simd reduction(+ : loss, label, label_squared, prediction, correct, squared)
  for (size_t r = 0; r < c.rows; ++r) {
    const float z = x[r * stride] + offset;
    const float y = clamp_label(c.targets[r]);
    const float magnitude = z < 0.0F ? -z : z;
    const float e = exp_fast(-magnitude);
    const float upper = 1.0F / (1.0F + e);  // sigmoid(|z|)
    const float p = z < 0.0F ? e * upper : upper;
    const float positive = z > 0.0F ? z : 0.0F;
    const float miss = p - y;
    difference[r] = miss + smoothing * (y - 0.5F);
    loss += double(positive - z * y + log1p_fast(e));
    label += double(y);
    label_squared += double(y * y);
    prediction += double(p);
    correct += (z > 0.0F) == (y > 0.5F) ? 1.0 : 0.0;
    squared += double(miss * miss);
  }
  *c.sums += {double(c.rows), loss, label, label_squared, prediction, correct, squared};
  if (c.gradient.data == nullptr) return;
  for (size_t r = 0; r < c.rows; ++r) {
    float& g = c.gradient.data[r * c.gradient.stride];
    g = c.scale * difference[r] + (c.accumulate ? g : 0.0F);
  }
}

/// The contribution of one element of a vector target.
struct Element {
  float loss, difference, prediction, correct, gradient;
};

Element logistic_element(const LossChunk& c, float z, float y) {
  const float magnitude = z < 0.0F ? -z : z;
  const float e = exp_fast(-magnitude);
  const float upper = 1.0F / (1.0F + e);
  const float p = z < 0.0F ? e * upper : upper;
  const float positive = z > 0.0F ? z : 0.0F;
  return {positive - z * y + log1p_fast(e), p - y, p, (z > 0.0F) == (y > 0.5F) ? 1.0F : 0.0F,
          p - y + c.smoothing * (y - 0.5F)};
}

Element squared_element(float z, float y) {
  const float d = z - y;
  return {d * d, d, z, 0.0F, 2.0F * d};
}

// The caller divides gradients by `unit`. A gradient that has the same size for all differences is
// multiplied by it, so that it does not depend on the target's unit.
Element absolute_element(const LossChunk& c, float z, float y) {
  const float d = z - y;
  return {std::abs(d), d, z, 0.0F, d > 0.0F ? c.unit : d < 0.0F ? -c.unit : 0.0F};
}

Element huber_element(const LossChunk& c, float z, float y) {
  const float d = z - y, magnitude = std::abs(d), limit = c.option * c.unit;
  if (magnitude <= limit) return {0.5F * d * d, d, z, 0.0F, d};
  return {limit * (magnitude - 0.5F * limit), d, z, 0.0F, d > 0.0F ? limit : -limit};
}

Element quantile_element(const LossChunk& c, float z, float y) {
  const float d = z - y, q = c.option;
  const float slope = d > 0.0F ? 1.0F - q : d < 0.0F ? -q : 0.0F;
  return {slope * d, d, z, 0.0F, slope * c.unit};
}

Element poisson_element(float z, float y) {
  const float limited = std::min(z, kLogRateMax);
  const float rate = std::exp(limited);
  return {rate - y * limited, rate - y, rate, 0.0F, rate - y};
}

// Labels 0 and 1 are the signs -1 and 1. At the kink, the gradient is that of the zero side.
Element hinge_element(float z, float y) {
  const float sign = y > 0.5F ? 1.0F : -1.0F, missing = 1.0F - sign * z;
  return {std::max(missing, 0.0F), 0.0F, z, (z > 0.0F) == (sign > 0.0F) ? 1.0F : 0.0F,
          missing > 0.0F ? -sign : 0.0F};
}

template <typename ElementOf>
void elementwise(const LossChunk& c, bool clamped, ElementOf element_of) {
  const float share = 1.0F / float(c.width);
  OutputSums sums;
  for (size_t r = 0; r < c.rows; ++r) {
    const float weight = weight_of(c, r);
    const float* x = c.x.data + r * c.x.stride;
    const float* targets = c.targets + r * c.width;
    float* gradients =
        c.gradient.data != nullptr ? c.gradient.data + r * c.gradient.stride : nullptr;
    const float factor = c.scale * weight * share / c.unit;
    double loss = 0, correct = 0, squared = 0, absolute = 0;
    double label = 0, label_squared = 0, prediction = 0;
    for (size_t j = 0; j < c.width; ++j) {
      const float y = clamped ? clamp_label(targets[j]) : targets[j];
      const Element e = element_of(c.offset + c.unit * x[j], y);
      loss += double(e.loss);
      correct += double(e.correct);
      squared += double(e.difference) * double(e.difference);
      absolute += std::abs(double(e.difference));
      label += double(y);
      label_squared += double(y) * double(y);
      prediction += double(e.prediction);
      if (gradients != nullptr) {
        const float before = c.accumulate ? gradients[j] : 0.0F;
        gradients[j] = before + (factor != 0.0F ? factor * e.gradient : 0.0F);
      }
    }
    if (weight > 0.0F) {
      sums.weight += double(weight);
      sums.loss += double(weight) * loss * double(share);
      sums.label += double(weight) * label * double(share);
      sums.label_squared += double(weight) * label_squared * double(share);
      sums.prediction += double(weight) * prediction * double(share);
      sums.correct += double(weight) * correct * double(share);
      sums.squared_error += double(weight) * squared * double(share);
      if (!clamped) sums.absolute_error += double(weight) * absolute / double(c.width);
    }
  }
  *c.sums += sums;
}

/// Writes e^(x - max) to `out` and returns the sum.
float exponentials(const float* x, uint32_t width, float* out, float& max, uint32_t& argmax) {
  max = x[0];
  argmax = 0;
  for (uint32_t j = 1; j < width; ++j) {
    if (x[j] > max) max = x[j], argmax = j;
  }
  float sum = 0;
  const float shift = max;
#pragma omp simd reduction(+ : sum)
  for (uint32_t j = 0; j < width; ++j) {
    out[j] = exp_fast(x[j] - shift);
    sum += out[j];
  }
  return sum;
}

/// Returns whether fewer than `k` of the classes are ahead of the label. A NaN is ahead of all, and
/// a label whose score is NaN is behind all.
bool is_in_top(const float* x, uint32_t width, uint32_t label, uint32_t k) {
  uint32_t ahead = 0;
  const float score = x[label];
  for (uint32_t j = 0; j < label; ++j) ahead += x[j] < score ? 0 : 1;
  for (uint32_t j = label + 1; j < width; ++j) ahead += x[j] <= score ? 0 : 1;
  return ahead < k;
}

/// Returns what a record adds to OutputMetrics::class_counts.
uint64_t class_units(const LossChunk& c, float weight) {
  constexpr double kWeightMax = 1e5;  // so that the sum of a billion records fits
  return c.weights == nullptr
             ? 1
             : uint64_t(std::llround(std::min(double(weight), kWeightMax) * kClassUnits));
}

void softmax(const LossChunk& c) {
  OutputSums sums;
  for (size_t r = 0; r < c.rows; ++r) {
    const float weight = weight_of(c, r);
    const float* x = c.x.data + r * c.x.stride;
    float* e = c.scratch;
    float max = 0;
    uint32_t argmax = 0;
    const float sum = exponentials(x, c.width, e, max, argmax);
    const float target = c.targets[r];
    const float clamped = std::clamp(target > 0.0F ? target : 0.0F, 0.0F, float(c.width - 1));
    const auto label = uint32_t(clamped);
    if (weight > 0.0F) {
      const double w = double(weight);
      sums.weight += w;
      sums.loss += w * (std::log(double(sum)) + double(max) - double(x[label]));
      sums.label += w * double(clamped);
      sums.label_squared += w * double(clamped) * double(clamped);
      sums.prediction += w * double(argmax);
      sums.correct += argmax == label && clamped == target ? w : 0.0;
      sums.in_top_k += clamped == target && is_in_top(x, c.width, label, c.top_k) ? w : 0.0;
      c.class_counts[label] += class_units(c, weight);
    }
    if (c.gradient.data == nullptr) continue;
    float* gradients = c.gradient.data + r * c.gradient.stride;
    const float factor = c.scale * weight;
    const float share = factor / sum, spread = factor * c.smoothing / float(c.width);
    if (!c.accumulate) std::fill_n(gradients, c.width, 0.0F);
    if (factor == 0.0F) continue;
    for (uint32_t j = 0; j < c.width; ++j) gradients[j] += share * e[j] - spread;
    gradients[label] -= factor * (1.0F - c.smoothing);
  }
  *c.sums += sums;
}

/// Losses of a record and its negatives. `loss_of(scores, group)` replaces the scores of a record's
/// rows by the derivatives of its loss, which it returns.
template <typename LossOf>
void compare(const LossChunk& c, LossOf loss_of) {
  OutputSums sums;
  for (size_t r = 0; r < c.rows; r += c.group) {
    const float weight = weight_of(c, r);
    float* const rows = c.scratch;
    for (size_t j = 0; j < c.group; ++j) rows[j] = c.x.data[(r + j) * c.x.stride];
    const float score = rows[0];
    const double loss = loss_of(rows, c.group);
    if (weight > 0.0F) {
      const auto w = double(weight);
      sums += {w, w * loss, w, w, w * double(score)};
    }
    if (c.gradient.data == nullptr) continue;
    const float factor = c.scale * weight;
    for (size_t j = 0; j < c.group; ++j) {
      float& gradient = c.gradient.data[(r + j) * c.gradient.stride];
      const float before = c.accumulate ? gradient : 0.0F;
      gradient = before + (factor != 0.0F ? factor * rows[j] : 0.0F);
    }
  }
  *c.sums += sums;
}

double bpr(float* rows, uint32_t group) {
  const float score = rows[0], share = group > 1 ? 1.0F / float(group - 1) : 0.0F;
  double loss = 0, slope = 0;
  for (uint32_t j = 1; j < group; ++j) {
    const float ahead = score - rows[j], magnitude = std::abs(ahead);
    const float e = exp_fast(-magnitude), upper = 1.0F / (1.0F + e);  // sigmoid(|ahead|)
    loss += double(std::max(-ahead, 0.0F) + log1p_fast(e));
    rows[j] = share * (ahead > 0.0F ? e * upper : upper);
    slope += double(rows[j]);
  }
  rows[0] = float(-slope);
  return loss * double(share);
}

double sampled_softmax(float* rows, uint32_t group) {
  const float score = rows[0];
  float max = 0;
  uint32_t argmax = 0;
  const float sum = exponentials(rows, group, rows, max, argmax);
  for (uint32_t j = 0; j < group; ++j) rows[j] /= sum;
  rows[0] -= 1.0F;
  return std::log(double(sum)) + double(max) - double(score);
}

}  // namespace

void loss_and_gradient(Loss loss, const LossChunk& chunk) {
  const auto of_chunk = [&](auto element_of) {
    elementwise(chunk, false, [&](float z, float y) { return element_of(chunk, z, y); });
  };
  switch (loss) {
    case Loss::kLogistic:
      if (chunk.width == 1 && chunk.weights == nullptr) return logistic_scalar(chunk);
      return elementwise(chunk, true,
                         [&](float z, float y) { return logistic_element(chunk, z, y); });
    case Loss::kSoftmax:
      return softmax(chunk);
    case Loss::kSquared:
      return elementwise(chunk, false, squared_element);
    case Loss::kAbsolute:
      return of_chunk(absolute_element);
    case Loss::kHuber:
      return of_chunk(huber_element);
    case Loss::kQuantile:
      return of_chunk(quantile_element);
    case Loss::kPoisson:
      return elementwise(chunk, false, poisson_element);
    case Loss::kHinge:
      return elementwise(chunk, true, hinge_element);
    case Loss::kBpr:
      return compare(chunk, bpr);
    case Loss::kSampledSoftmax:
      return compare(chunk, sampled_softmax);
  }
}

void predict(const Output& output, bool raw, ConstMatrix x, size_t rows, float* predictions) {
  const uint32_t width = output.width;
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x.data + r * x.stride;
    float* out = predictions + r * width;
    const LossInfo& loss = info_of(output.loss);
    if (raw || loss.target == TargetType::kNumber || loss.is_margin) {
      for (uint32_t j = 0; j < width; ++j) out[j] = output.offset + output.scale * row[j];
    } else if (output.loss == Loss::kPoisson) {
      for (uint32_t j = 0; j < width; ++j)
        out[j] = std::exp(std::min(output.offset + row[j], kLogRateMax));
    } else if (output.loss == Loss::kLogistic) {
      for (uint32_t j = 0; j < width; ++j) out[j] = sigmoid_fast(output.offset + row[j]);
    } else {
      float max = 0;
      uint32_t argmax = 0;
      const float sum = exponentials(row, width, out, max, argmax);
      for (uint32_t j = 0; j < width; ++j) out[j] /= sum;
    }
  }
}

double sum_weights(std::span<const float> weights) {
  double sum = 0;
  for (const float w : weights) sum += w > 0.0F ? double(w) : 0.0;
  return sum;
}

}  // namespace downpour::model
