// JSON scanning: the names of simdjson (Langdale, Lemire 2019; on-demand API) that are used here.
// Lines need not be copied for its padding, because kPadBytes are readable after every window.
#pragma once

#define SIMDJSON_EXCEPTIONS 0
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <simdjson.h>
#include <string>
#include <string_view>
#include <utility>

#include "shared/data/records/window.h"
#include "shared/data/values/fields.h"

namespace downpour::data::json {

using Array = simdjson::ondemand::array;
using Document = simdjson::ondemand::document;
using Number = simdjson::ondemand::number;
using Object = simdjson::ondemand::object;
using Parser = simdjson::ondemand::parser;
using Type = simdjson::ondemand::json_type;
using Value = simdjson::ondemand::value;
using ErrorCode = simdjson::error_code;

constexpr ErrorCode kSuccess = simdjson::SUCCESS;
constexpr ErrorCode kOther = simdjson::NUM_ERROR_CODES;  // not an error of simdjson: the caller has
                                                         // set `fault`

static_assert(simdjson::SIMDJSON_PADDING <= kPadBytes);

inline ErrorCode open(Parser& parser, std::string_view line, Document& document) {
  return parser.iterate(line.data(), line.size(), line.size() + simdjson::SIMDJSON_PADDING)
      .get(document);
}

inline bool is_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

/// Returns what simdjson's error means, as the end of a sentence about a line.
inline const char* message(ErrorCode error) {
  static constexpr std::pair<ErrorCode, const char*> kMessages[] = {
      {simdjson::UTF8_ERROR, "is not UTF-8"},
      {simdjson::UNCLOSED_STRING, "has a string that is not closed"},
      {simdjson::NUMBER_ERROR, "has an invalid number"},
      {simdjson::STRING_ERROR, "has a string with an invalid escape"},
      {simdjson::DEPTH_ERROR, "is nested too deep"}};
  for (const auto& [code, text] : kMessages) {
    if (code == error) return text;
  }
  return "is not a JSON object";
}

/// Returns whether JSON allows these characters of a number that std::from_chars() accepts.
inline bool is_number(std::string_view token) {
  const size_t first = token.starts_with('-') ? 1 : 0, point = token.find('.');
  const auto digit = [&](size_t i) {
    return i < token.size() && token[i] >= '0' && token[i] <= '9';
  };
  return digit(first) && !(token[first] == '0' && digit(first + 1)) &&
         (point == std::string_view::npos || digit(point + 1));
}

/// Reads a number of more characters than a double has digits, because simdjson 3.0 is wrong about
/// some of them. An integer must fit an int64_t or a uint64_t, and a double must be finite.
template <typename Take>
ErrorCode read_long_number(std::string_view token, const Take& take) {
  const char* const begin = token.data();
  const char* const end = begin + token.size();
  const auto holds = [&](auto& number) {
    const auto [to, error] = std::from_chars(begin, end, number);
    return to == end && error == std::errc{};
  };
  if (!is_number(token)) return simdjson::NUMBER_ERROR;
  if (token.find_first_of(".eE") == std::string_view::npos) {
    int64_t integer = 0;
    uint64_t natural = 0;
    if (holds(integer)) return take(integer);
    return holds(natural) ? take(natural) : simdjson::NUMBER_ERROR;
  }
  double number = 0;
  const auto [to, error] = std::from_chars(begin, end, number);
  if (to != end || error == std::errc::invalid_argument) return simdjson::NUMBER_ERROR;
  if (error != std::errc{}) number = std::strtod(std::string(token).c_str(), nullptr);
  return std::isfinite(number) ? take(number) : simdjson::NUMBER_ERROR;
}

/// Reads a number and returns take(number), which has the type int64_t if it fits, otherwise
/// uint64_t or double.
template <typename Take>
ErrorCode read_number(Value& value, const Take& take) {
  constexpr size_t kShortMax = 18;                  // characters of an integer that always fits
  std::string_view token = value.raw_json_token();  // with the blanks after it
  token = token.substr(0, token.find_first_of(" \t\r\n"));
  if (token.size() > kShortMax) return read_long_number(token, take);
  Number number;
  if (const ErrorCode error = value.get_number().get(number)) return error;
  if (number.is_int64()) return take(int64_t{number.get_int64()});
  return number.is_double() ? take(number.get_double()) : take(uint64_t{number.get_uint64()});
}

/// Opens the object that a line consists of, and calls read(object), which returns kSuccess, an
/// error of simdjson, or kOther after it has set `fault`. Returns false and sets `fault` if the
/// line or a value in it is bad; `hint` says how to correct it.
template <typename Read>
bool read_line(Parser& parser, std::string_view line, const char* hint, Fault& fault, Read&& read) {
  Document document;
  Object object;
  ErrorCode error = open(parser, line, document);
  if (error == kSuccess) error = document.get_object().get(object);
  if (error == kSuccess) error = read(object);
  if (error == kOther) return false;
  const bool whole = error == kSuccess && document.current_location().error();
  if (whole) [[likely]]
    return true;
  fault = {.reason = error == kSuccess ? "has text after its JSON object" : message(error),
           .text = line,
           .hint = hint};
  return false;
}

}  // namespace downpour::data::json
