// Counter-based random numbers. A value is a function of (seed, position), so it does not depend on
// order or threads.
#pragma once

#include <cmath>
#include <cstdint>

#include "shared/base/hash.h"

namespace downpour {

/// Uniform in [0, 1), from the high 24 (float) or 53 (double) bits of a word.
constexpr float uniform_float(uint64_t word) { return float(word >> 40) * 0x1.0p-24F; }
constexpr double uniform_double(uint64_t word) { return double(word >> 11) * 0x1.0p-53; }

/// A stream of words. Word i of stream `seed`, counted from 1, is mix64(mix64(seed) + i * kStep).
/// Starting at any position takes constant time.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : state_(mix64(seed)) {}
  constexpr uint64_t next() { return mix64(state_ += kStep); }
  /// Skips `words` words. normal() takes two words, uniform() and uniform64() take one.
  constexpr void skip(uint64_t words) { state_ += words * kStep; }
  /// Uniform in [0, n), where n > 0. Multiply-shift of Lemire 2019; its bias is below n / 2^64.
  constexpr uint64_t below(uint64_t n) { return uint64_t((__uint128_t(next()) * n) >> 64); }
  constexpr float uniform() { return uniform_float(next()); }
  constexpr double uniform64() { return uniform_double(next()); }
  /// Standard normal by Box and Muller 1958; only one value of the pair is used.
  double normal() {
    const double u = 1.0 - uniform64();
    const double v = uniform64();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;

  uint64_t state_;
};

}  // namespace downpour
