// RestartPolicy: decides whether and when a local process that has ended is restarted.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "shared/base/result.h"

namespace downpour::tools {

/// Restarts a process until it has ended more than `in_a_row_max` times without progress of the job
/// in between. The first restart is immediate. Later restarts wait for a pause that grows with the
/// number of ends in the last minute.
class RestartPolicy {
 public:
  explicit RestartPolicy(uint32_t in_a_row_max) : in_a_row_max_(in_a_row_max) {}

  /// Handles the end of the process. Returns the time of its restart, or nothing for a crash loop.
  /// `progress` is a number that grows whenever the job reaches a point that it never reached
  /// before.
  std::optional<int64_t> on_ended(int64_t now_ns, uint64_t progress);

 private:
  uint32_t in_a_row_max_;
  uint32_t in_a_row_ = 0;     // restarts since the job made progress
  uint64_t progress_ = 0;     // of the job at the last end of the process
  std::deque<int64_t> ends_;  // times of the ends in the last minute
};

/// Returns the error of the exit status if a restart can't repair it: bad data, an invalid job, or
/// a full disk.
std::optional<ErrorCode> permanent_error(int wait_status);

/// Returns whether a restart is useful after this status of waitpid(). It is after a signal, or if
/// the chief or peers were missing. It is not after a permanent_error(), nor after status 0,
/// because such a process was asked to leave.
bool restart_mends(int wait_status);

}  // namespace downpour::tools
