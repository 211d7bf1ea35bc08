#include "shared/data/values/number.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::data {
namespace {

std::string digits(Rng& rng, uint64_t count) {
  std::string text;
  for (uint64_t i = 0; i < count; ++i) text += char('0' + rng.below(10));
  return text;
}

/// Returns a random decimal number, mostly short as in files, sometimes long or with an exponent.
std::string random_number(Rng& rng) {
  std::string text = rng.below(3) == 0 ? "-" : rng.below(20) == 0 ? "+" : "";
  text += digits(rng, 1 + rng.below(rng.below(4) == 0 ? 25 : 6));
  if (rng.below(3) > 0) text += "." + digits(rng, rng.below(rng.below(4) == 0 ? 25 : 7));
  if (rng.below(6) == 0)
    text += std::string(rng.below(2) ? "e" : "E") + (rng.below(2) ? "-" : "") +
            digits(rng, 1 + rng.below(2));
  return text;
}

TEST_CASE("parse_short_float equals strtof bit for bit, or rejects the text", "[data]") {
  Rng rng(2);
  int taken = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    std::string text = random_number(rng);
    if (rng.below(4) == 0) text[rng.below(text.size())] = "+-.e,x:/ "[rng.below(9)];
    char padded[80] = "";
    if (text.size() > 60) continue;
    text.copy(padded, text.size());
    float got = 0;
    if (!parse_short_float(padded, text.size(), got)) continue;
    ++taken;
    char* end = nullptr;
    const float want = std::strtof(padded, &end);
    INFO(text);
    REQUIRE(end == padded + text.size());
    REQUIRE(std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want));
  }
  CHECK(taken > 300'000);
  for (const char* plain :
       {"0", "-0", "7", "1.", ".5", "-0.534", "12345678", "1234.567", "0.000001"}) {
    char padded[16] = "";
    std::string_view(plain).copy(padded, 15);
    float got = 0;
    CHECK(parse_short_float(padded, std::string_view(plain).size(), got));
  }
  for (const char* other :
       {"-", ".", "-.", "1.2.3", "1e5", "+1", "99999999", "123456789", "1,2", "0x1"}) {
    char padded[16] = "";
    std::string_view(other).copy(padded, 15);
    float got = 0;
    CHECK_FALSE(parse_short_float(padded, std::string_view(other).size(), got));
  }
}

TEST_CASE("parse_short_floats equals parse_short_float for each text", "[data]") {
  Rng rng(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> texts(rng.below(90));
    std::vector<std::string_view> views;
    for (std::string& text : texts) {
      text = random_number(rng);
      if (rng.below(4) == 0) text[rng.below(text.size())] = "+-.e,x:/ "[rng.below(9)];
      if (rng.below(20) == 0) text.clear();
      const size_t size = text.size();
      text.append(16, "\t.0-"[rng.below(4)]);  // bytes after the text do not matter
      views.emplace_back(text.data(), size);
    }
    const size_t n = texts.size();
    std::vector<float> values(n);
    const auto good = std::make_unique<bool[]>(n);
    parse_short_floats(views, values.data(), good.get());
    for (size_t i = 0; i < n; ++i) {
      float want = 0;
      const bool wanted =
          !views[i].empty() && parse_short_float(views[i].data(), views[i].size(), want);
      INFO(views[i]);
      REQUIRE(good[i] == wanted);
      if (wanted) REQUIRE(std::bit_cast<uint32_t>(values[i]) == std::bit_cast<uint32_t>(want));
    }
  }
}

TEST_CASE("parse_float equals strtof bit for bit for a million random numbers", "[data]") {
  Rng rng(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const std::string text = random_number(rng) + ",";
    char* want_end = nullptr;
    const float want = std::strtof(text.c_str(), &want_end);
    float got = 0;
    const char* const end = parse_float(text.c_str(), got);
    if (!std::isfinite(want)) {
      if (end != nullptr) FAIL(text << " is not finite");
      continue;
    }
    if (end != want_end || std::bit_cast<uint32_t>(got) != std::bit_cast<uint32_t>(want))
      FAIL(text << " reads as " << got << ", not " << want);
  }
}

TEST_CASE("halfway cases round to even, and near them even the last digit decides", "[data]") {
  // 16777217 = 2^24 + 1 lies halfway between two floats. Rounding to double first would lose the
  // last digit of the next two texts.
  for (const char* text :
       {"16777217", "16777217.0000000001", "16777216.9999999999", "1.00000005960464477539",
        "1.000000059604644775390625", "0.000000000000000000000000000000000000000000001", "1e-46",
        "1e-400", "3.4028234e38", "1.17549435e-38", "-0"}) {
    float got = 0;
    REQUIRE(parse_float(text, got) != nullptr);
    CHECK(std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(std::strtof(text, nullptr)));
  }
}

TEST_CASE("text that is not a finite number is rejected", "[data]") {
  float value = 7;
  for (const char* text : {"", "-", "+", ".", "abc", "nan", "inf", "-inf", "Infinity", "1e39",
                           "-1e400", "+-1", "--1", " 1", "e5"}) {
    INFO(text);
    CHECK(parse_float(text, value) == nullptr);
  }
  CHECK(value == 7);
  CHECK(*parse_float("0x10", value) == 'x');  // the caller sees where the number ends
  CHECK(*parse_float("1.5.2", value) == '.');
}

TEST_CASE("is_int64 decides by the digits, not by a rounded value", "[data]") {
  for (const char* text : {"0", "-0", "7", "+7", "3.", "3.000", ".0", "1e3", "1.5e1", "1500E-2",
                           "000123", "-9223372036854775808", "9223372036854775807",
                           "9.223372036854775807e18", "0e99", "0.00e-5", "12.50e+1"})
    CHECK(is_int64(text));
  for (const char* text : {"0.5", "1.00000001", "16777217.5", "9223372036854775808", "1e19", "1e-1",
                           "-9223372036854775809", "99999999999999999999", "15e-2",
                           "1e999999999999", "9007199254740993.5", "1e400"})
    CHECK_FALSE(is_int64(text));
}

TEST_CASE("parse_uint reads up to the largest uint64", "[data]") {
  uint64_t value = 0;
  REQUIRE(parse_uint("18446744073709551615:", value) != nullptr);
  CHECK(value == UINT64_MAX);
  REQUIRE(parse_uint("00000000000000000000012", value) != nullptr);
  CHECK(value == 12);
  CHECK(parse_uint("18446744073709551616", value) == nullptr);
  CHECK(parse_uint("-1", value) == nullptr);
  CHECK(parse_uint("", value) == nullptr);
}

}  // namespace
}  // namespace downpour::data
