// Background: work off the caller's thread, and what follows from it back on that thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace downpour {

class Background {
 public:
  using Completion = std::function<void()>;
  /// Does the work and returns what is to be done with its result.
  using Task = std::function<Completion()>;
  virtual ~Background() = default;
  /// Tasks are done one after the other, in the order of these calls.
  virtual void start(Task task) = 0;
  /// Runs the completions of tasks that are done; false where there are none.
  virtual bool run_completions() = 0;
};

/// A thread of its own, begun with the first task. Destroyed it finishes the task it is at and
/// drops the others.
class BackgroundThread final : public Background {
 public:
  /// `wake` is called from the thread after each task.
  explicit BackgroundThread(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~BackgroundThread() override;
  void start(Task task) override;
  bool run_completions() override;

 private:
  void run();

  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::deque<Completion> done_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace downpour
