// Arithmetic on sizes that files, stores or peers claim: it saturates instead of overflowing.
#pragma once

#include <cstdint>

namespace downpour {

/// Returns the sum, or UINT64_MAX if it does not fit.
constexpr uint64_t saturating_add(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
/// Returns the product, or UINT64_MAX if it does not fit.
constexpr uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
/// Returns the quotient, rounded up. `b` must be above 0.
constexpr uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace downpour
