// Decides whether 32-bit floats are too coarse for numbers with a large offset.
#pragma once

#include <algorithm>
#include <cmath>

namespace downpour {

/// Returns whether floats of this magnitude are too coarse for values that differ by `spread`: at
/// most 12 of their 24 bits remain. Example: times in seconds since 1970 that span a day.
inline bool floats_are_coarse(double magnitude, double spread) {
  return spread > 0 && magnitude >= 4096 * spread;
}
/// Does the same for values from `least` to `most`.
inline bool floats_are_coarse_between(double least, double most) {
  return floats_are_coarse(std::max(std::abs(least), std::abs(most)), most - least);
}

}  // namespace downpour
