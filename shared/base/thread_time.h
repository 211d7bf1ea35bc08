// ThreadTime: how long a thread ran, and how long it waited for a processor.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/descriptor.h"

namespace downpour {

/// The scheduler's counters of the thread that constructs the object. Only that thread may use it.
class ThreadTime {
 public:
  ThreadTime();

  struct Sums {
    int64_t ran_ns = 0;
    int64_t waited_ns = 0;  // the thread was runnable, but another thread had the processor
  };
  /// Returns nothing if the system does not report these times (only Linux with CONFIG_SCHED_INFO
  /// does).
  std::optional<Sums> so_far() const;

 private:
  const Descriptor file_;
};

}  // namespace downpour
