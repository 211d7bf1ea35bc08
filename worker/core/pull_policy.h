// PullPolicy: decides when a worker may pull the variables of its next batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "shared/wire/lease_messages.h"

namespace downpour::worker {

/// Bounds how far this worker runs ahead of the slowest one. Its clock is the number of its trained
/// batches that every partition has acknowledged; the floor is the lowest clock of the workers that
/// hold a training lease, as the chief publishes it. With a bound s, a batch may be pulled if clock
/// + earlier batches in flight <= floor + s. Without a bound every pull is allowed. Both numbers
/// never decrease.
class PullPolicy {
 public:
  /// Sets the bound, in batches (none: no bound), and the silence after which the chief ends the
  /// leases of this worker.
  void configure(int64_t now_ns, std::optional<uint64_t> staleness, int64_t lease_ns) {
    staleness_ = staleness;
    lease_ns_ = lease_ns;
    renewed_ns_ = now_ns;
  }
  bool is_bounded() const { return staleness_.has_value(); }

  /// Returns whether a batch may be pulled if `ahead` earlier ones are in flight.
  bool may_pull(int64_t now_ns, uint64_t ahead) const {
    if (!staleness_) return true;
    return clock_ - floor_ + ahead <= *staleness_ && !may_be_expired(now_ns);
  }
  /// Returns whether the chief may have ended this worker's leases: it has not confirmed a report
  /// that was sent within the last lease time. Always false without a bound.
  bool may_be_expired(int64_t now_ns) const {
    return staleness_ && now_ns - renewed_ns_ > lease_ns_;
  }
  /// Counts a batch that every partition has acknowledged.
  void count_batch() { ++clock_; }
  /// Takes a floor that the chief has published. A worker below it held no lease when the floor
  /// rose, and continues from the floor.
  void take(const wire::Floor& floor) {
    floor_ = std::max(floor_, floor.batches);
    clock_ = std::max(clock_, floor_);
    renewed_ns_ = std::max(renewed_ns_, floor.report_ns);
  }
  /// Returns a report of the clock.
  wire::Clock report(int64_t now_ns) const {
    return {.batches = clock_, .floor = floor_, .sent_ns = now_ns};
  }
  uint64_t clock() const { return clock_; }

 private:
  std::optional<uint64_t> staleness_;
  int64_t lease_ns_ = 0;
  uint64_t clock_ = 0;  // never below floor_
  uint64_t floor_ = 0;
  int64_t renewed_ns_ = 0;  // when the newest report was sent that the chief has confirmed
};

}  // namespace downpour::worker
