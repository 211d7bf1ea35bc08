#include "shared/data/formats/text/text_values.h"

#include <algorithm>
#include <charconv>

#include "shared/data/values/number.h"

namespace downpour::data {
namespace {

constexpr const char* kLineHint = "correct the line, or skip bad records";

}  // namespace

bool bad_line(const char* reason, std::string_view line, Fault& fault) {
  fault = {.reason = reason, .text = line, .hint = kLineHint};
  return false;
}

bool integer_of(std::string_view text, int64_t& value) {
  const size_t sign = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() > sign + 1 && text[sign] == '0') return false;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size() && text != "-0";
}

bool real_of(std::string_view text, double& value) {
  const size_t sign = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() <= sign || (!is_digit(text[sign]) && text[sign] != '.')) return false;
  if (std::all_of(text.begin() + ptrdiff_t(sign), text.end(), is_digit) && text != "-0")
    return false;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

}  // namespace downpour::data
