// Numbers from text, fast: the inner loop of every text format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

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
  p += negative;  // no branch: signs vary
  if (*p == '+' && !negative) [[unlikely]]
    ++p;
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
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(result) ^ uint32_t{negative} << 31);
  return p;
}

/// Reads the decimal number that `text` is from end to end, where it is short and plain ("-0.534"):
/// a sign, up to 8 digits and a point. False: try parse_float. Eight digits at once, as in Lemire,
/// "Quickly parsing eight digits" (2018). 8 bytes from `text` on must be readable.
inline bool parse_short_float(const char* text, size_t size, float& value) {
  constexpr uint64_t kZeros = 0x3030303030303030, kHigh = 0xf0f0f0f0f0f0f0f0;
  const bool negative = *text == '-';
  size -= negative;
  if (size - 1 > 7) return false;
  uint64_t word;
  std::memcpy(&word, text + negative, 8);
  // Right-aligned behind zeros: the first digit is the lowest byte.
  const uint64_t unused = 64 - 8 * size;
  word = unused == 0 ? word : word << unused | (kZeros & ((uint64_t{1} << unused) - 1));
  const uint64_t not_point = word ^ 0x2e2e2e2e2e2e2e2e;
  const uint64_t point = (not_point - 0x0101010101010101) & ~not_point & 0x8080808080808080;
  uint32_t decimals = 0;
  if (point != 0) {
    const uint64_t at = uint64_t(__builtin_ctzll(point)) & ~uint64_t{7};  // its bit
    const uint64_t before = (uint64_t{1} << at) - 1;
    word = (word & ~(before << 8 | 0xff)) | (word & before) << 8 | '0';
    decimals = uint32_t(7 - at / 8);
    if (size == 1) return false;
  }
  if ((word & kHigh) != kZeros || ((word + 0x0606060606060606) & kHigh) != kZeros) return false;
  word -= kZeros;
  word = word * 10 + (word >> 8);
  constexpr uint64_t kPairs = 0x000000ff000000ff;
  const auto number = uint32_t(
      ((word & kPairs) * 0x000f424000000064 + ((word >> 16) & kPairs) * 0x0000271000000001) >> 32);
  if (number > (1U << 24)) return false;
  const float result = float(int32_t(number)) / kPow10f[decimals];
  value = std::bit_cast<float>(std::bit_cast<uint32_t>(result) ^ uint32_t{negative} << 31);
  return true;
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
