// Quantiles of numbers, for the op "quantile".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace downpour::data {

/// Returns the smallest value, the largest, and values between them such that each of `intervals`
/// intervals has about equally many of the values; ascending, each once. `as_floats`: rounded to
/// 32-bit floats. If the values never vary, a second boundary is added, nearer to 0 or beyond it.
/// `values` must be finite.
inline std::vector<double> quantiles(std::vector<double> values, uint32_t intervals,
                                     bool as_floats = true) {
  const auto rounded = [&](double value) { return as_floats ? double(float(value)) : value; };
  if (values.empty()) values.push_back(0);
  std::sort(values.begin(), values.end());
  std::vector<double> found;
  for (uint32_t i = 0; i <= intervals; ++i) {
    const auto at = size_t(double(i) / double(intervals) * double(values.size() - 1) + 0.5);
    const auto value = rounded(values[at]);
    if (found.empty() || found.back() < value) found.push_back(value);
  }
  if (found.size() > 1) return found;
  const double only = found[0];
  if (only > 0) return {rounded(only - std::max(1.0, only)), only};
  return {only, rounded(only + std::max(1.0, -only))};
}

}  // namespace downpour::data
