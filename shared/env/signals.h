// Signals: SIGINT and SIGTERM as a number that a loop looks at, and a wake-up for that loop.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace downpour {

/// Blocks both signals in this thread and all that it begins (so construct it first), and waits for them in a thread
/// of its own. The first one is stored and `wake` called; the second ends the process at once (130 or 143). What comes
/// within 200 ms of the first is the first once more: timeout(1) and others send theirs to the process and its group.
class SignalWatcher {
 public:
  explicit SignalWatcher(std::function<void()> wake);
  ~SignalWatcher();
  const std::atomic<int>& signal() const { return signal_; }

 private:
  std::atomic<int> signal_{0};
  std::atomic<bool> closing_{false};
  std::function<void()> wake_;
  std::thread thread_;
};

/// Blocks SIGINT and SIGTERM in the calling thread; call it before any thread begins.
void block_stop_signals();

}  // namespace downpour
