// PageToucher: a thread that makes memory present before a core writes it. On a fresh machine the
// first touch of a page costs thousands of times more than a later one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "ps/core/arena.h"

namespace downpour::ps {

/// Thread-safe. The first ask() starts the thread.
class PageToucher final : public Prefault {
 public:
  PageToucher() = default;
  PageToucher(const PageToucher&) = delete;
  PageToucher& operator=(const PageToucher&) = delete;
  ~PageToucher() override;

  void ask(void* begin, size_t bytes, bool huge_pages) override;
  void forget(void* begin, size_t bytes) override;

 private:
  struct Range {
    uint8_t* begin = nullptr;
    uint8_t* end = nullptr;
    bool huge_pages = false;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> ranges_;  // to be touched
  Range touching_;            // being touched now, without the mutex
  int asking_cpu_ = -1;       // processor of the last call of ask()
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace downpour::ps
