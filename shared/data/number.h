// Numbers from text, fast: the inner loop of every text format.
#pragma once

#include <bit>
#include <cstdint>

namespace downpour::data {

inline constexpr float kPow10f[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F,
                                    1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
inline constexpr double kPow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline bool is_digit(char c) { return uint8_t(c - '0') < 10; }

/// What parse_float does not decide at once: exponents, long mantissas, halfway cases.
const char* parse_float_slow(const char* text, float& value);

/// Reads a decimal number at `text` as the float nearest to it (bit for bit strtof's in the C
/// locale). Returns the first byte behind it, or null: no number there, or not finite ("inf",
/// "nan", 1e99). The text must end in a byte that can be no part of a number (a line break, a
/// delimiter, 0).
inline const char* parse_float(const char* text, float& value) {
  const char* p = text;
  const bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  uint64_t mantissa = 0;
  const char* first = p;
  for (; is_digit(*p); ++p) mantissa = mantissa * 10 + uint64_t(*p - '0');
  int64_t digits = p - first, decimals = 0;
  if (*p == '.') {
    first = ++p;
    for (; is_digit(*p); ++p) mantissa = mantissa * 10 + uint64_t(*p - '0');
    decimals = p - first;
    digits += decimals;
  }
  if (digits == 0 || digits > 19 || (*p | 0x20) == 'e') [[unlikely]]
    return parse_float_slow(text, value);
  float result;
  if (mantissa <= (1U << 24) && decimals <= 10) {
    // Both exact in a float, so one division rounds once (Clinger 1990).
    result = float(int32_t(mantissa)) / kPow10f[decimals];
  } else if (mantissa <= (uint64_t{1} << 53)) {
    // Rounded once to double. Rounding again to float is wrong only on a float's halfway point, or
    // below the normal floats.
    const double wide = double(int64_t(mantissa)) / kPow10[decimals];
    if ((std::bit_cast<uint64_t>(wide) & 0x1fffffff) == 0x10000000 ||
        (wide < 0x1p-126 && wide != 0)) [[unlikely]] {
      return parse_float_slow(text, value);
    }
    result = float(wide);
  } else {
    return parse_float_slow(text, value);
  }
  value = negative ? -result : result;
  return p;
}

const char* parse_uint_slow(const char* text, uint64_t& value);

/// Reads a decimal uint64 at `text`. Returns the first byte behind it, or null: no digit, or too
/// large.
inline const char* parse_uint(const char* text, uint64_t& value) {
  const char* p = text;
  uint64_t result = 0;
  for (; is_digit(*p); ++p) result = result * 10 + uint64_t(*p - '0');
  if (p == text || p - text > 19) [[unlikely]]
    return parse_uint_slow(text, value);
  value = result;
  return p;
}

}  // namespace downpour::data
