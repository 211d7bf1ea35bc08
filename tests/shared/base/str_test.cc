#include "shared/base/str.h"

#include <cstdint>
#include <limits>
#include <sstream>

#include <catch2/catch.hpp>

#include "shared/base/ids.h"

namespace downpour {
namespace {

enum Unscoped { kZero, kOne };

template <typename T>
std::string streamed(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

}  // namespace

TEST_CASE("str: every part looks as a stream prints it", "[base]") {
  const auto check_one = [](const auto& value) { CHECK(str(value) == streamed(value)); };
  const auto check = [&](const auto&... values) { (check_one(values), ...); };
  check(0, -1, 42U, true, false, 'c', uint8_t{65}, int8_t{66}, int16_t{-300}, uint16_t{65535});
  check(std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max());
  check(0.0, -0.0, 1.0, 1.5F, 0.1, 1e-5, 123456.0, 1234567.0, 1e300, 2.0F / 3, -1e-300);
  check(std::numeric_limits<double>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<double>::quiet_NaN());
  check("text", std::string("owned"), std::string_view("view"), kOne);
  check(BatchId{1, 2, 3}, ViewId{4, 5}, ShardId{6, 7});
}

TEST_CASE("hex: the digits of a stream in base 16", "[base]") {
  CHECK(hex(0) == "0");
  CHECK(hex(0xdeadbeef00) == "deadbeef00");
}

TEST_CASE("str: parts follow each other", "[base]") {
  CHECK(str() == "");
  CHECK(str("shard ", 3U, '/', BatchId{1, 2, 3}, ": ", 0.5, " of ", std::string("x")) ==
        "shard 3/1/2/3: 0.5 of x");
}

}  // namespace downpour
