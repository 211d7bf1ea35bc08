// Restart policy: whether and when a process of this machine that has ended is started again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "shared/base/result.h"

namespace downpour::tools {

/// At most so many restarts a minute, the first at once, then after growing pauses.
class RestartPolicy {
 public:
  explicit RestartPolicy(uint32_t per_minute_max) : per_minute_max_(per_minute_max) {}

  /// The process has ended: when it is to be started again; nothing if it has been too often.
  std::optional<int64_t> on_ended(int64_t now_ns);

 private:
  uint32_t per_minute_max_;
  std::deque<int64_t> recent_;  // ends of the last minute that were followed by a restart
};

/// The error that the process reported by its exit status, where a restart can not mend it: bad
/// data, a wrong job, a full disk.
std::optional<ErrorCode> permanent_error(int wait_status);

/// Whether a restart can mend what made a process end with this status of waitpid(): a signal, a
/// chief or peers that were not there. Bad data, a wrong job or a full disk stay as they are, and
/// whoever was asked to leave (0) is not wanted back.
bool restart_mends(int wait_status);

}  // namespace downpour::tools
