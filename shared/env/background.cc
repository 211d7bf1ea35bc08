#include "shared/env/background.h"

#include <utility>

#include "shared/env/wait_front.h"

namespace downpour {

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::start(Task task) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

bool BackgroundThread::run_completions() {
  std::deque<Completion> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (const Completion& completion : done) completion();
  return !done.empty();
}

void BackgroundThread::run() {
  for (;;) {
    auto task = wait_front(mutex_, changed_, closing_, tasks_);
    if (!task) return;
    Completion completion = (*task)();
    task.reset();
    {
      const std::lock_guard lock(mutex_);
      done_.push_back(std::move(completion));
    }
    wake_();
  }
}

}  // namespace downpour
