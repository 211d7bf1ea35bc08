// Scheduler: virtual time, as a queue of events. Nothing waits in real time, and only one event
// runs at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "shared/base/check.h"

namespace downpour::sim {

/// Runs events in order of time. Events of the same time run in the order in which they were added.
class Scheduler {
 public:
  using Act = std::function<void()>;

  int64_t now_ns() const { return now_ns_; }
  void at(int64_t when_ns, Act act) {
    uint32_t slot = uint32_t(acts_.size());
    if (free_.empty()) {
      acts_.push_back(std::move(act));
    } else {
      slot = free_.back();
      free_.pop_back();
      acts_[slot] = std::move(act);
    }
    heap_.push_back({std::max(when_ns, now_ns_), order_++, slot});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  void after(int64_t delay_ns, Act act) { at(now_ns_ + delay_ns, std::move(act)); }

  /// Runs the next event. Returns false if there is none.
  bool step() {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    DP_CHECK(event.at_ns >= now_ns_);
    now_ns_ = event.at_ns;
    ++steps_;
    const Act act = std::exchange(acts_[event.slot], nullptr);
    free_.push_back(event.slot);
    act();
    return true;
  }
  uint64_t steps() const { return steps_; }

 private:
  struct Event {
    int64_t at_ns = 0;
    uint64_t order = 0;
    uint32_t slot = 0;  // in acts_
  };
  static bool later(const Event& a, const Event& b) {
    return std::pair(a.at_ns, a.order) > std::pair(b.at_ns, b.order);
  }

  std::vector<Event> heap_;
  std::vector<Act> acts_;       // not in the heap, which moves its events about
  std::vector<uint32_t> free_;  // slots of acts_
  int64_t now_ns_ = 0;
  uint64_t order_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace downpour::sim
