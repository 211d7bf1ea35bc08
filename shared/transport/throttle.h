// Throttle: how often something may be reported or answered that peers can cause at will.
#pragma once

#include <cstdint>

namespace downpour::transport {

/// A token bucket. The clock is the caller's.
class Throttle {
 public:
  struct Limits {
    uint32_t burst = 1;       // at once
    uint32_t per_second = 1;  // in the long run
  };
  explicit Throttle(Limits limits) : limits_(limits), tokens_(limits.burst) {}

  /// Whether one more may pass now. Counts those that may not.
  bool pass(int64_t now_ns);
  /// How many were held back since the last call.
  uint64_t take_suppressed();

 private:
  Limits limits_;
  double tokens_;
  int64_t last_ns_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace downpour::transport
