#include "shared/transport/throttle.h"

#include <catch2/catch.hpp>

#include "shared/base/units.h"

namespace downpour::transport {
namespace {

TEST_CASE("a throttle passes a burst, then a fixed number a second, and counts the others",
          "[transport]") {
  Throttle throttle({.burst = 3, .per_second = 2});
  int passed = 0;
  for (int i = 0; i < 10; ++i) passed += throttle.pass(kSecond) ? 1 : 0;
  CHECK(passed == 3);
  CHECK(throttle.take_suppressed() == 7);
  CHECK(throttle.take_suppressed() == 0);
  passed = 0;
  for (int ms = 1000; ms < 11'000; ms += 10) passed += throttle.pass(ms * kMillisecond) ? 1 : 0;
  CHECK(passed >= 19);
  CHECK(passed <= 20);
  CHECK(throttle.pass(100 * kSecond));
}

TEST_CASE("a throttle passes nothing more while its clock is paused or steps back", "[transport]") {
  Throttle throttle({.burst = 1, .per_second = 1000});
  CHECK(throttle.pass(5 * kSecond));
  CHECK_FALSE(throttle.pass(5 * kSecond));
  CHECK_FALSE(throttle.pass(kSecond));
}

}  // namespace
}  // namespace downpour::transport
