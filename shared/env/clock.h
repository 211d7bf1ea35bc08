// Clock: the only way to ask what time it is. Cores never do: time is an argument there.
#pragma once

#include <cstdint>

namespace downpour {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds of a clock that never goes back and counts sleep (CLOCK_BOOTTIME).
  virtual int64_t now_ns() const = 0;
};

/// The machine's.
class PosixClock final : public Clock {
 public:
  int64_t now_ns() const override;
};

}  // namespace downpour
