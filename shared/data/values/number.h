// Number parsing: fast conversion of text to numbers, the inner loop of every text format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace downpour::data {

inline constexpr float kPow10f[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F,
                                    1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
inline constexpr double kPow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline bool is_digit(char c) { return uint8_t(c - '0') < 10; }

/// Handles the cases that parse_float does not decide itself: exponents, long mantissas, halfway
/// cases.
const char* parse_float_slow(const char* text, float& value);

/// Reads the decimal number at `text` as the nearest double. Otherwise the same as parse_float(),
/// but slower.
const char* parse_double(const char* text, double& value);

/// Reads the decimal number at `text` as the nearest float, bit for bit like strtof in the C
/// locale. Returns the first byte after it, or null if there is no number or it is not finite
/// ("inf", "nan", 1e99). The text must be followed by a byte that can't be part of a number (a line
/// break, a delimiter, 0).
inline const char* parse_float(const char* text, float& value) {
  const char* p = text;
  const bool negative = *p == '-';
  p += negative;  // branch-free, because signs vary
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
    // Both are exact in a float, so one division rounds once (Clinger 1990).
    result = float(int32_t(mantissa)) / kPow10f[decimals];
  } else if (mantissa <= (uint64_t{1} << 53)) {
    // The double is rounded once. Rounding it to float again is wrong only if it is halfway between
    // two floats or below the normal floats.
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

/// A short decimal number as text: a sign, up to 8 digits and a point. It is read in three steps,
/// so that the middle step can process many numbers at once.
struct ShortNumber {
  uint64_t word;  // right-aligned and padded with zeros; the first digit is the lowest byte
  uint32_t sign;  // sign bit of a float
  bool fits;      // false: there are not 1 to 8 bytes after the sign, and `word` is undefined

  /// Loads a number. 9 bytes from `text` on must be readable.
  static ShortNumber at(const char* text, size_t size) {
    const uint64_t negative = *text == '-';
    size -= negative;
    uint64_t word;
    std::memcpy(&word, text + negative, 8);
    const uint64_t unused = (64 - 8 * size) & 63;
    word = word << unused | (kZeros & ((uint64_t{1} << unused) - 1));
    return {word, uint32_t(negative) << 31, size - 1 <= 7};
  }

  struct Digits {
    uint64_t number = 0, decimals = 0;
    uint64_t good = 0;  // 0: not digits with at most one point, or not exact in a float; else 1
  };
  /// Parses eight digits at once, as in Lemire, "Quickly parsing eight digits" (2018). Branch-free,
  /// so that a loop of calls can be vectorized.
  static Digits read(uint64_t word) {
    constexpr uint64_t kHigh = 0xf0f0f0f0f0f0f0f0, kPairs = 0x000000ff000000ff;
    constexpr uint64_t kLonePoint = (kZeros & ~(uint64_t{0xff} << 56)) | uint64_t{'.'} << 56;
    const uint64_t not_point = word ^ 0x2e2e2e2e2e2e2e2e;
    uint64_t point = (not_point - 0x0101010101010101) & ~not_point & 0x8080808080808080;
    point = (point & (0 - point)) >> 7;  // the lowest bit of the first point's byte; 0: no point
    const uint64_t before = point - 1;   // all bits if there is no point
    const uint64_t behind = ~(before | ((point << 8) - point));
    const uint64_t moved = (word & behind) | (word & before) << 8 | '0';
    const uint64_t text = point == 0 ? word : moved;
    const uint64_t wrong =
        ((text & kHigh) ^ kZeros) | (((text + 0x0606060606060606) & kHigh) ^ kZeros);
    uint64_t pairs = text - kZeros;
    pairs = pairs * 10 + (pairs >> 8);
    const uint64_t number =
        ((pairs & kPairs) * 0x000f424000000064 + ((pairs >> 16) & kPairs) * 0x0000271000000001) >>
        32;
    const uint64_t good =
        uint64_t{wrong == 0} & uint64_t{number <= 1U << 24} & uint64_t{word != kLonePoint};
    return {number, (point * 0x0706050403020100) >> 56, good};
  }

  /// Both are exact in a float, so one division rounds once (Clinger 1990).
  static float value(uint64_t number, uint64_t decimals, uint32_t sign) {
    const float value = float(int32_t(number)) / kPow10f[decimals];
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ sign);
  }

 private:
  static constexpr uint64_t kZeros = 0x3030303030303030;
};

/// Reads a whole text as a decimal number if it is short and plain ("-0.534"). Returns false
/// otherwise; then use parse_float. 9 bytes from `text` on must be readable.
inline bool parse_short_float(const char* text, size_t size, float& value) {
  const ShortNumber number = ShortNumber::at(text, size);
  if (!number.fits) return false;
  const ShortNumber::Digits digits = ShortNumber::read(number.word);
  if (digits.good == 0) return false;
  value = ShortNumber::value(digits.number, digits.decimals, number.sign);
  return true;
}

/// Does the same for many texts. Sets good[i], and values[i] if good[i] is true; otherwise
/// values[i] is undefined.
void parse_short_floats(std::span<const std::string_view> texts, float* values, bool* good);

/// Returns whether a decimal number ("-3", "3.0", "1e3") is an int64.
bool is_int64(std::string_view text);

const char* parse_uint_slow(const char* text, uint64_t& value);

/// Reads the decimal uint64 at `text`. Returns the first byte after it, or null if there is no
/// digit or the number is too large.
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
