// Range: the bounds of a number that a user sets.
#pragma once

namespace downpour {

/// Bounds of a number. With `above`, the lower bound itself is excluded.
struct Range {
  double min = 0, max = 3e38;
  bool above = false;
};
inline constexpr Range kPositive{0, 3e38, true};
inline constexpr Range kShareBelowOne{0, 0.9999999};

}  // namespace downpour
