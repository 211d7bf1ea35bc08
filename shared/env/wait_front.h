// wait_front(): how a thread waits for its next task.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "shared/base/queue.h"

namespace downpour {

/// Waits until the queue has an element, and takes it. Returns nothing once `closing` is set.
/// `mutex` guards the queue and `closing`; `changed` is notified when they change.
template <typename T>
std::optional<T> wait_front(std::mutex& mutex, std::condition_variable& changed,
                            const bool& closing, std::deque<T>& queue) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return closing || !queue.empty(); });
  if (closing) return std::nullopt;
  return take_front(queue);
}

}  // namespace downpour
