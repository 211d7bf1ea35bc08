// How many seeds a test of many takes.
#pragma once

#include <cstdint>

namespace downpour::testing {

/// `count`, and a tenth of it under a sanitizer: there the paths count, which the first seeds take,
/// and a run takes ten to thirty times as long.
constexpr uint64_t seeds(uint64_t count) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return count / 10;
#else
  return count;
#endif
}

}  // namespace downpour::test
