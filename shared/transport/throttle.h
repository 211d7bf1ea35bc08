// Throttle: limits how often events that peers can cause at will are reported or answered.
#pragma once

#include <cstdint>

namespace downpour::transport {

/// A token bucket. The caller supplies the time.
class Throttle {
 public:
  struct Limits {
    uint32_t burst = 1;       // maximum at once
    uint32_t per_second = 1;  // maximum in the long run
  };
  explicit Throttle(Limits limits) : limits_(limits), tokens_(limits.burst) {}

  /// Returns true if one more event may pass now. Counts suppressed events.
  bool pass(int64_t now_ns);
  /// Returns the number of events suppressed since the last call.
  uint64_t take_suppressed();

 private:
  Limits limits_;
  double tokens_;
  int64_t last_ns_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace downpour::transport
