#include "ps/runtime/page_toucher.h"

#include <algorithm>
#include <cstdint>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

namespace downpour::ps {
namespace {

constexpr size_t kStepBytes =
    size_t{2} << 20;  // a huge page at a time: the core's own faults are let in between

#ifdef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateWrite =
    23;  // Linux 5.14; older kernels refuse it, and pages come when they are written
#endif

}  // namespace

PageToucher::~PageToucher() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PageToucher::touch(void* begin, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    ranges_.push_back({begin, bytes});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_one();
}

void PageToucher::run() {
  // Whoever serves goes first: this thread takes a free core, or its share, but interrupts nobody
  // by waking up. Refused: then it does.
  const sched_param no_priority{};
  (void)::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &no_priority);
  for (;;) {
    Range range;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !ranges_.empty(); });
      if (closing_) return;
      range = ranges_.front();
      ranges_.pop_front();
    }
    for (size_t at = 0; at < range.bytes; at += kStepBytes) {
      // The kernel checks the range: one that was moved or unmapped meanwhile is an error and
      // nothing else.
      void* const begin = static_cast<uint8_t*>(range.begin) + at;
      const size_t bytes = std::min(kStepBytes, range.bytes - at);
      (void)::madvise(begin, bytes, MADV_HUGEPAGE);  // advice: may be refused
      if (::madvise(begin, bytes, kPopulateWrite) != 0) break;
    }
  }
}

}  // namespace downpour::ps
