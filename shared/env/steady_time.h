// The time since some fixed point, for measuring and waiting inside one process.
#pragma once

#include <chrono>
#include <cstdint>

namespace downpour {

/// Returns the time of std::chrono::steady_clock in nanoseconds. Unlike Clock, it stands still
/// while the machine is suspended.
inline int64_t steady_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace downpour
