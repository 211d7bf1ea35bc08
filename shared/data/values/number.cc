#include "shared/data/values/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace downpour::data {

void parse_short_floats(std::span<const std::string_view> texts, float* values, bool* good) {
  constexpr size_t kBlock = 32, kLanes = 8;
  uint64_t words[kBlock] = {}, numbers[kBlock], decimals[kBlock], read[kBlock];
  uint32_t signs[kBlock];
  for (size_t begin = 0; begin < texts.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, texts.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const std::string_view text = texts[begin + i];
      const ShortNumber number = ShortNumber::at(text.data(), text.size());
      words[i] = number.word;
      signs[i] = number.sign;
      good[begin + i] = number.fits;
    }
    for (size_t i = 0; i < (count + kLanes - 1) / kLanes * kLanes; ++i) {
      const ShortNumber::Digits digits = ShortNumber::read(words[i]);
      numbers[i] = digits.number;
      decimals[i] = digits.decimals;
      read[i] = digits.good;
    }
    for (size_t i = 0; i < count; ++i) {
      values[begin + i] = ShortNumber::value(numbers[i], decimals[i], signs[i]);
      good[begin + i] &= read[i] != 0;
    }
  }
}

template <typename T>
static const char* parse_real(const char* text, T& value) {
  const char* first = *text == '+' ? text + 1 : text;
  if (*first == '+' || (*text == '+' && *first == '-')) return nullptr;
  const char* last = first;
  while (is_digit(*last) || *last == '.' || *last == '-' || *last == '+' || (*last | 0x20) == 'e')
    ++last;
  T result = 0;
  const auto [end, error] = std::from_chars(first, last, result);
  if (error == std::errc::invalid_argument) return nullptr;
  // from_chars does not report whether the number was too large or too small; strtof does.
  if (error == std::errc::result_out_of_range) {
    const std::string digits(first, end);
    if constexpr (std::is_same_v<T, float>) {
      result = std::strtof(digits.c_str(), nullptr);
    } else {
      result = std::strtod(digits.c_str(), nullptr);
    }
  }
  if (!std::isfinite(result)) return nullptr;
  value = result;
  return end;
}

const char* parse_float_slow(const char* text, float& value) { return parse_real(text, value); }

const char* parse_double(const char* text, double& value) { return parse_real(text, value); }

bool is_int64(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  // The significant digits, and the number of digits before the point.
  std::string digits;
  int64_t point = -1;
  size_t i = 0;
  for (; i < text.size() && (is_digit(text[i]) || text[i] == '.'); ++i) {
    if (text[i] == '.') {
      point = int64_t(digits.size());
    } else {
      digits += text[i];
    }
  }
  if (point < 0) point = int64_t(digits.size());
  if (i < text.size()) {
    if ((text[i] | 0x20) != 'e') return false;
    i += text.substr(i).starts_with("e+") || text.substr(i).starts_with("E+") ? 2 : 1;
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), exponent);
    if (error != std::errc()) return false;
    point += exponent;
  }
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  point -= int64_t(zeros);
  digits.resize(digits.find_last_not_of('0') + 1);
  if (digits.empty()) return true;
  constexpr int64_t kDigitsMax = 19;
  if (point < int64_t(digits.size()) || point > kDigitsMax) return false;
  digits.resize(size_t(point), '0');
  uint64_t magnitude = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), magnitude);
  return magnitude <= uint64_t(INT64_MAX) + (negative ? 1 : 0);
}

const char* parse_uint_slow(const char* text, uint64_t& value) {
  const char* last = text;
  while (is_digit(*last)) ++last;
  const auto [end, error] = std::from_chars(text, last, value);
  return error == std::errc() ? end : nullptr;
}

}  // namespace downpour::data
