// Elements of arrays: loads them from unaligned bytes in either byte order, as float or integer.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "shared/data/formats/numpy/npy.h"

namespace downpour::data {

/// Converts an IEEE 754 half-precision number to a float.
inline float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
                 fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = float(fraction) * 0x1p-24F;
  return sign != 0 ? -small : small;
}

struct Half {
  uint16_t bits;
};

template <typename T, bool kSwap>
inline T load_element(const char* at) {
  char bytes[sizeof(T)];
  if constexpr (kSwap) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = at[sizeof(T) - 1 - i];
  } else {
    std::memcpy(bytes, at, sizeof(T));
  }
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Calls visit.template operator()<T, kSwap>(), where T is the element type and kSwap says whether
/// its bytes are in the other order.
template <typename Visit>
auto visit_npy_type(NpyType type, Visit&& visit) {
  const auto both = [&]<typename T>() {
    return type.big_endian ? visit.template operator()<T, true>()
                           : visit.template operator()<T, false>();
  };
  switch (type.kind) {
    case 'b':
      return visit.template operator()<bool, false>();
    case 'i':
      return type.bytes == 1   ? visit.template operator()<int8_t, false>()
             : type.bytes == 2 ? both.template operator()<int16_t>()
             : type.bytes == 4 ? both.template operator()<int32_t>()
                               : both.template operator()<int64_t>();
    case 'u':
      return type.bytes == 1   ? visit.template operator()<uint8_t, false>()
             : type.bytes == 2 ? both.template operator()<uint16_t>()
             : type.bytes == 4 ? both.template operator()<uint32_t>()
                               : both.template operator()<uint64_t>();
    default:
      return type.bytes == 2   ? both.template operator()<Half>()
             : type.bytes == 4 ? both.template operator()<float>()
                               : both.template operator()<double>();
  }
}

/// Returns the element at `at` as an int64, a uint64, a float or a double. A bool is 0 or 1,
/// whatever its byte is.
template <typename T, bool kSwap>
inline auto element_value(const char* at) {
  if constexpr (std::is_same_v<T, bool>) {
    return int64_t(*at != 0);
  } else if constexpr (std::is_same_v<T, Half>) {
    return half_to_float(load_element<Half, kSwap>(at).bits);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return load_element<T, kSwap>(at);
  } else if constexpr (std::is_integral_v<T>) {
    return int64_t(load_element<T, kSwap>(at));
  } else {
    return load_element<T, kSwap>(at);
  }
}

/// Writes `count` elements as floats. With kPlain = false, integers are converted by way of a
/// double, because the ops of a transform work on doubles. Returns false if one of the floats is
/// not finite.
template <typename T, bool kSwap, bool kPlain = true>
inline bool copy_floats(const char* from, size_t count, float* to) {
  uint32_t infinite = 0;
  for (size_t i = 0; i < count; ++i) {
    float value;
    if constexpr (!kPlain) {
      value = float(double(element_value<T, kSwap>(from + i * sizeof(T))));
    } else {
      value = float(element_value<T, kSwap>(from + i * sizeof(T)));
    }
    const auto bits = std::bit_cast<uint32_t>(value);
    infinite |= uint32_t((bits & 0x7f800000) == 0x7f800000);
    to[i] = value;
  }
  return infinite == 0;
}

}  // namespace downpour::data
