// Page toucher: a thread that makes memory present before a core writes it. On a fresh machine the first touch of a
// page costs thousands of times a later one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

namespace downpour::ps {

class PageToucher {
 public:
  PageToucher() = default;
  PageToucher(const PageToucher&) = delete;
  PageToucher& operator=(const PageToucher&) = delete;
  ~PageToucher();

  /// Any thread. What the range holds is not changed; a range that is gone by then is passed over. The thread begins
  /// with the first call.
  void touch(void* begin, size_t bytes);

 private:
  struct Range {
    void* begin = nullptr;
    size_t bytes = 0;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> ranges_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace downpour::ps
