// SignalWatcher: receives SIGINT and SIGTERM on a thread of its own and passes them to a callback.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace downpour {

/// Blocks both signals in the calling thread and in all threads that it starts later, so it must be
/// constructed first. Waits for the signals on a thread of its own. Signals that arrived while they
/// were blocked count. The first signal is stored and passed to `on_signal`, on that thread. The
/// second one ends the process at once with status 130 or 143. A signal within 200 ms of the first
/// is ignored, because timeout(1) and other programs signal both the process and its group. A
/// signal that the parent process has set to be ignored stays ignored.
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

}  // namespace downpour
