#include "shared/data/number.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace downpour::data {

const char* parse_float_slow(const char* text, float& value) {
  const char* first = *text == '+' ? text + 1 : text;
  if (*first == '+' || (*text == '+' && *first == '-')) return nullptr;
  const char* last = first;
  while (is_digit(*last) || *last == '.' || *last == '-' || *last == '+' || (*last | 0x20) == 'e')
    ++last;
  float result = 0;
  const auto [end, error] = std::from_chars(first, last, result);
  if (error == std::errc::invalid_argument) return nullptr;
  // from_chars does not say whether the number was too large or too small; strtof does.
  if (error == std::errc::result_out_of_range)
    result = std::strtof(std::string(first, end).c_str(), nullptr);
  if (!std::isfinite(result)) return nullptr;
  value = result;
  return end;
}

const char* parse_uint_slow(const char* text, uint64_t& value) {
  const char* last = text;
  while (is_digit(*last)) ++last;
  const auto [end, error] = std::from_chars(text, last, value);
  return error == std::errc() ? end : nullptr;
}

}  // namespace downpour::data
