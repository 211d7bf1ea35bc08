// Background: runs tasks on another thread, and their completions on the caller's thread.
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
  /// Does the work on the other thread. Returns the completion, which uses the result.
  using Task = std::function<Completion()>;
  virtual ~Background() = default;
  /// Enqueues a task. Tasks run one after the other, in the order of the calls.
  virtual void start(Task task) = 0;
  /// Runs the completions of all finished tasks. Returns false if there are none.
  virtual bool run_completions() = 0;
};

/// Runs tasks on a thread of its own, which starts with the first task. The destructor waits for
/// the running task and drops the others.
class BackgroundThread final : public Background {
 public:
  /// `wake` is called on that thread after each task.
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
