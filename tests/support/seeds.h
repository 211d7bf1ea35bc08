// seeds: reduces the number of seeds of a test under a sanitizer.
#pragma once

#include <cstdint>

namespace downpour::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Returns `count`, or a tenth of it under a sanitizer. There a run takes 10 to 30 times as long,
/// and the first seeds already reach the code paths that the sanitizer must see.
constexpr uint64_t seeds(uint64_t count) { return kSanitized ? count / 10 : count; }

}  // namespace downpour::testing
