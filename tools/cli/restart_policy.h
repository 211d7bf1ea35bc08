// Restart policy: whether and when a process of this machine that has ended is started again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "shared/base/result.h"

namespace downpour::tools {

/// Whether: until the process has ended more than `in_a_row_max` times without any progress of the
/// job in between. When: at once, then after pauses that grow with the number of ends in the last
/// minute.
class RestartPolicy {
 public:
  explicit RestartPolicy(uint32_t in_a_row_max) : in_a_row_max_(in_a_row_max) {}

  /// The process has ended. Returns when to start it again, or nothing for a crash loop.
  /// `progress`: a number that grows whenever the job gets further than ever before.
  std::optional<int64_t> on_ended(int64_t now_ns, uint64_t progress);

 private:
  uint32_t in_a_row_max_;
  uint32_t in_a_row_ = 0;     // restarts since the job made progress
  uint64_t progress_ = 0;     // at the newest of them
  std::deque<int64_t> ends_;  // of the last minute
};

/// The error that the process reported by its exit status, where a restart can not mend it: bad
/// data, a wrong job, a full disk.
std::optional<ErrorCode> permanent_error(int wait_status);

/// Whether a restart can mend the reason why a process ended with this status of waitpid(): a
/// signal, a chief or peers that were not there. Bad data, a wrong job and a full disk stay as they
/// are, and a process that was asked to leave (0) is not wanted back.
bool restart_mends(int wait_status);

}  // namespace downpour::tools
