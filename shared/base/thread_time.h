// ThreadTime: how much of a thread's time was its own doing.
#pragma once

#include <cstdint>
#include <optional>

namespace downpour {

/// What the system has counted of the thread that made it, which alone may ask.
class ThreadTime {
 public:
  ThreadTime();
  ~ThreadTime();
  ThreadTime(const ThreadTime&) = delete;
  ThreadTime& operator=(const ThreadTime&) = delete;

  struct Sums {
    int64_t ran_ns = 0;
    int64_t waited_ns = 0;  // it could have run, and another thread did
  };
  /// None where the system does not say (no Linux with CONFIG_SCHED_INFO).
  std::optional<Sums> so_far() const;

 private:
  const int file_;
};

}  // namespace downpour
