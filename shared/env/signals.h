// Signals: SIGINT and SIGTERM as a number that a loop looks at, and a wake-up for that loop.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace downpour {

/// Blocks both signals in this thread and in all that it begins, so construct it first, and waits
/// for them in a thread of its own. Signals that came while they were blocked count. The first one
/// is stored and passed to `on_signal`, in that thread. The second one ends the process at once
/// with 130 or 143. A signal within 200 ms of the first is the same request: timeout(1) and others
/// signal the process and its group.
class SignalWatcher {
 public:
  explicit SignalWatcher(std::function<void(int signal)> on_signal);
  ~SignalWatcher();
  const std::atomic<int>& signal() const { return signal_; }

 private:
  std::atomic<int> signal_{0};
  std::atomic<bool> closing_{false};
  std::function<void(int)> on_signal_;
  std::thread thread_;
};

/// Blocks SIGINT and SIGTERM in the calling thread; call it before any thread begins.
void block_stop_signals();

/// Ends this process with 130 on SIGINT and 143 on SIGTERM, until a SignalWatcher takes over: for
/// the time in which there is nothing to save. The default action of both would not reach process 1
/// of a container.
void exit_on_stop_signals();

}  // namespace downpour
