// SignalWatcher: receives SIGINT and SIGTERM on a thread of its own and passes them to a callback.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace downpour {

/// Waits for SIGINT and SIGTERM on a thread of its own:
/// - The first signal is stored and passed to `on_signal` on that thread.
/// - A signal within 200 ms of the first is ignored, because timeout(1) and other programs signal
///   both the process and its group.
/// - The next signal ends the process at once with status 130 or 143.
/// - A signal that the parent process has set to be ignored stays ignored.
///
/// The constructor blocks both signals in the calling thread and in all threads that this thread
/// starts later, so construct it before starting other threads. A signal that arrived while it was
/// blocked counts.
class SignalWatcher {
 public:
  explicit SignalWatcher(std::function<void(int signal)> on_signal);
  ~SignalWatcher();
  /// Returns the first signal; 0 if there has been none.
  const std::atomic<int>& signal() const { return signal_; }

 private:
  std::atomic<int> signal_{0};
  std::atomic<bool> closing_{false};
  std::function<void(int)> on_signal_;
  std::thread thread_;
};

/// Blocks SIGINT and SIGTERM in the calling thread. Must be called before other threads are
/// started.
void block_stop_signals();

/// Makes SIGINT end this process with status 130, and SIGTERM with 143, until a SignalWatcher is
/// constructed. For the time in which there is nothing to save. The default action of both signals
/// has no effect on process 1 of a container.
void exit_on_stop_signals();

/// Sleeps for `ns`. If SIGINT or SIGTERM arrives meanwhile, or is pending, the process ends with
/// status 130 or 143. The signals must be blocked in this thread, and there is no SignalWatcher.
void sleep_unless_stopped(int64_t ns);

}  // namespace downpour
