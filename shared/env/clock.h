// Clock: the time for shells, from the machine or from the simulator. Cores do not use it, because
// they receive the time as an argument.
#pragma once

#include <cstdint>

namespace downpour {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Returns the time in nanoseconds. It never decreases and includes the time in which the machine
  /// is suspended (CLOCK_BOOTTIME).
  virtual int64_t now_ns() const = 0;
};

/// The clock of the machine.
class PosixClock final : public Clock {
 public:
  int64_t now_ns() const override;
};

}  // namespace downpour
