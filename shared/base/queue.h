// Taking the first element of a queue.
#pragma once

#include <deque>
#include <utility>

namespace downpour {

/// Removes and returns the first element. Precondition: the queue is not empty.
template <typename T>
T take_front(std::deque<T>& queue) {
  T front = std::move(queue.front());
  queue.pop_front();
  return front;
}

/// Moves the first element to `out`. Returns false if the queue is empty.
template <typename T>
bool try_take_front(std::deque<T>& queue, T& out) {
  if (queue.empty()) return false;
  out = take_front(queue);
  return true;
}

}  // namespace downpour
