// NumberOps: the ops of a transform that map numbers to numbers, compiled.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "shared/job/coarse_floats.h"
#include "shared/job/ops.h"

namespace downpour::data {

/// Applies the ops of OpStage::kNumber in their order. Ignores other ops.
class NumberOps {
 public:
  /// Adds the steps of an op. Statistics that are learned from the data, such as a mean, must be
  /// filled in.
  void add(const TransformSpec& spec) {
    std::visit(
        [this]<typename Op>(const Op& op) {
          if constexpr (Op::kInfo.stage == OpStage::kNumber) lower(op);
        },
        spec);
  }
  static bool takes(const TransformSpec& spec) { return info_of(spec).stage == OpStage::kNumber; }
  bool empty() const { return steps_.empty(); }
  bool has_logarithm() const { return has_logarithm_; }
  /// Returns whether the ops must be applied to doubles with apply_exactly(), because they subtract
  /// a number so large that floats are too coarse for the differences.
  bool need_doubles() const { return need_doubles_; }

  /// Returns whether every finite number is mapped to a finite number.
  bool is_total() const {
    double least = -std::numeric_limits<float>::max(), most = std::numeric_limits<float>::max();
    for (const Step& step : steps_) {
      switch (step.kind) {
        case Kind::kLog1p:
          if (least <= -1) return false;
          least = std::log1p(least);
          most = std::log1p(most);
          break;
        case Kind::kAtLeast:
          least = std::max(least, double(float(step.a)));
          most = std::max(most, least);
          break;
        case Kind::kAtMost:
          most = std::min(most, double(float(step.a)));
          least = std::min(least, most);
          break;
        case Kind::kScale: {
          const double a = (least - step.a) / step.b, b = (most - step.a) / step.b;
          least = std::min(a, b);
          most = std::max(a, b);
          break;
        }
        case Kind::kQuantile:
          least = 0;
          most = 1;
          break;
      }
      const double bound = std::numeric_limits<float>::max();
      if (!(least >= -bound && most <= bound)) return false;
    }
    return true;
  }

  /// Does the same as apply() on each value. All values must be finite, and is_total() must hold.
  /// Works op by op, so that the compiler can vectorize each loop.
  void apply_to_all(std::span<float> values) const {
    for (const Step& step : steps_) {
      const auto a = float(step.a);
      switch (step.kind) {
        case Kind::kLog1p:
          for (float& x : values) x = log1p_of(x);
          break;
        case Kind::kAtLeast:
          for (float& x : values) x = x < a ? a : x;
          break;
        case Kind::kAtMost:
          for (float& x : values) x = a < x ? a : x;
          break;
        case Kind::kScale:
          for (float& x : values) x = float((double(x) - step.a) / step.b);
          break;
        case Kind::kQuantile:
          for (float& x : values) x = quantile_of<float>(x, step.boundaries);
          break;
      }
    }
  }

  /// Applies the ops to a double in double precision, and rounds the result once.
  float apply_exactly(double x) const {
    for (const Step& step : steps_) {
      switch (step.kind) {
        case Kind::kLog1p:
          x = std::log1p(x);
          break;
        case Kind::kAtLeast:
          x = x < step.a ? step.a : x;
          break;
        case Kind::kAtMost:
          x = step.a < x ? step.a : x;
          break;
        case Kind::kScale:
          x = (x - step.a) / step.b;
          break;
        case Kind::kQuantile:
          x = quantile_of<double>(x, step.exact_boundaries);
          break;
      }
    }
    return float(x);
  }

  float apply(float x) const {
    for (const Step& step : steps_) {
      switch (step.kind) {
        case Kind::kLog1p:
          x = 1.0 + double(x) > 0 ? log1p_of(x) : float(std::log(1.0 + double(x)));
          break;
        case Kind::kAtLeast:
          x = x < float(step.a) ? float(step.a) : x;
          break;
        case Kind::kAtMost:
          x = float(step.a) < x ? float(step.a) : x;
          break;
        case Kind::kScale:
          x = float((double(x) - step.a) / step.b);
          break;
        case Kind::kQuantile:
          x = quantile_of<float>(x, step.boundaries);
          break;
      }
    }
    return x;
  }

 private:
  void lower(const ops::Log1p& /*op*/) {
    steps_.push_back({Kind::kLog1p, 0, 0});
    has_logarithm_ = true;
  }
  void lower(const ops::Clip& op) {
    if (op.min) steps_.push_back({Kind::kAtLeast, *op.min, 0});
    if (op.max) steps_.push_back({Kind::kAtMost, *op.max, 0});
  }
  void lower(const ops::Standardize& op) {
    const double mean = op.mean.value_or(0), scale = op.scale.value_or(1);
    steps_.push_back({Kind::kScale, mean, scale});
    need_doubles_ |= floats_are_coarse(std::abs(mean), std::abs(scale));
  }
  void lower(const ops::MinMax& op) {
    const double min = op.min.value_or(0), range = op.max.value_or(1) - min;
    steps_.push_back({Kind::kScale, min, range});
    need_doubles_ |= floats_are_coarse(std::abs(min), std::abs(range));
  }
  void lower(const ops::Quantile& op) {
    const std::vector<double>& boundaries = op.boundaries;
    steps_.push_back({.kind = Kind::kQuantile,
                      .boundaries = {boundaries.begin(), boundaries.end()},
                      .exact_boundaries = boundaries});
    need_doubles_ |=
        !boundaries.empty() && floats_are_coarse_between(boundaries.front(), boundaries.back());
  }

  /// Returns where x lies among ascending boundaries: it maps the boundaries to evenly spaced
  /// values from 0 to 1, and interpolates linearly between neighbours.
  template <typename T>
  static float quantile_of(T x, std::span<const T> boundaries) {
    if (boundaries.size() < 2 || !(x > boundaries.front())) return 0;
    if (x >= boundaries.back()) return 1;
    const auto above = std::upper_bound(boundaries.begin(), boundaries.end(), x);
    const double below = double(*(above - 1));
    const double part = (double(x) - below) / (double(*above) - below);
    return float((double(above - 1 - boundaries.begin()) + part) / double(boundaries.size() - 1));
  }

  /// Returns log(1 + x) for x > -1. u = 1 + x = 2^e m with m in [sqrt(1/2), sqrt(2)), and log m = 2
  /// atanh((m - 1) / (m + 1)), whose series is cut off where a term is below 2^-40. A correction
  /// adds the part of x that was lost when 1 + x was rounded to u. Branch-free and without
  /// instructions that only AVX-512 has, so that a loop of calls can be vectorized.
  static float log1p_of(float x) {
    constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
    constexpr uint64_t kBias = 1024;
    const double u = 1.0 + double(x);
    const auto bits = std::bit_cast<uint64_t>(u);
    const uint64_t e = (bits - kRootHalf + (kBias << 52)) >> 52;  // biased by kBias, so positive
    const auto m = std::bit_cast<double>(bits - ((e - kBias) << 52));
    const double exponent = std::bit_cast<double>(0x4330000000000000 | e) - (0x1p52 + kBias);
    const double s = (m - 1) / (m + 1), z = s * s;
    double series = 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    series = series * z + 1.0;
    const double log = exponent * 0x1.62e42fefa39efp-1 + 2 * s * series;
    return float(log + (double(x) - (u - 1.0)) / u);
  }

  enum class Kind : uint8_t { kLog1p, kAtLeast, kAtMost, kScale, kQuantile };
  struct Step {
    Kind kind;
    double a = 0, b = 0;
    std::vector<float> boundaries = {};
    std::vector<double> exact_boundaries = {};
  };
  std::vector<Step> steps_;
  bool has_logarithm_ = false;
  bool need_doubles_ = false;
};

}  // namespace downpour::data
