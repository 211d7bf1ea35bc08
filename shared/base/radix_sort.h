// Radix sort by an unsigned key, several times as fast as std::sort.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace downpour {

/// Sorts stably, least significant digit first. Digits in which no two keys differ are skipped, so
/// keys from a dictionary take two or three passes. `spare` is working memory of the same size; its
/// contents are lost.
template <typename T, typename KeyOf>
void radix_sort(std::vector<T>& values, std::vector<T>& spare, KeyOf key_of) {
  constexpr uint32_t kDigitBits = 11;
  constexpr uint64_t kDigitMask = (1 << kDigitBits) - 1;
  constexpr size_t kFew = 256;  // below this size, counting does not pay
  if (values.size() < kFew) {
    return std::stable_sort(values.begin(), values.end(),
                            [&](const T& a, const T& b) { return key_of(a) < key_of(b); });
  }
  uint64_t differ = 0;
  for (const T& value : values) differ |= key_of(value) ^ key_of(values[0]);
  spare.resize(values.size());
  for (uint32_t shift = 0; shift < 64 && differ >> shift != 0; shift += kDigitBits) {
    if ((differ >> shift & kDigitMask) == 0) continue;
    size_t begins[kDigitMask + 1] = {};
    for (const T& value : values) ++begins[key_of(value) >> shift & kDigitMask];
    size_t begin = 0;
    for (size_t& here : begins) begin += std::exchange(here, begin);
    for (const T& value : values) spare[begins[key_of(value) >> shift & kDigitMask]++] = value;
    values.swap(spare);
  }
}

}  // namespace downpour
