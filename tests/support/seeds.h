// How much of a test is done where a sanitizer is at work.
#pragma once

#include <cstdint>

namespace downpour::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// `count`, and a tenth of it under a sanitizer: there the paths count, which the first seeds take,
/// and a run takes ten to thirty times as long.
constexpr uint64_t seeds(uint64_t count) { return kSanitized ? count / 10 : count; }

}  // namespace downpour::testing
