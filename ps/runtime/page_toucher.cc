#include "ps/runtime/page_toucher.h"

#include <algorithm>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "shared/base/page_vector.h"
#include "shared/base/units.h"

namespace downpour::ps {
namespace {

// The size of a huge page. The thread touches this much before it looks again at what is requested
// or withdrawn.
constexpr size_t kStepBytes = 2 * kMiB;
constexpr int kNice = 19;

/// Makes pages present by writing to them what they hold. MADV_POPULATE_WRITE would do the same,
/// but it holds the lock of the whole address space meanwhile. Then every allocation in the process
/// waits until the machine has found memory. A write delays only threads that access the same page.
///
/// A core may write the same byte at the same time. The single atomic instruction makes that
/// harmless, but a race detector would still report it.
[[gnu::no_sanitize("thread")]] void touch(uint8_t* begin, const uint8_t* end) {
  for (volatile uint8_t* at = begin; at < end; at += kPageBytes) {
    __atomic_fetch_or(at, uint8_t{0}, __ATOMIC_RELAXED);
  }
}

/// Keeps the calling thread off `cpu` if it may run on another one. If the hypervisor must first
/// find memory for a page, its processor stalls for milliseconds. Every other thread on that
/// processor then waits, whatever the priorities.
void leave_cpu(const cpu_set_t& allowed, int cpu) {
  cpu_set_t others = allowed;
  if (cpu >= 0) CPU_CLR(cpu, &others);
  (void)::pthread_setaffinity_np(::pthread_self(), sizeof others,
                                 CPU_COUNT(&others) > 0 ? &others : &allowed);
}

}  // namespace

PageToucher::~PageToucher() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PageToucher::ask(void* begin, size_t bytes, bool huge_pages) {
  auto* const first = static_cast<uint8_t*>(begin);
  {
    const std::lock_guard lock(mutex_);
    ranges_.push_back({first, first + bytes, huge_pages});
    asking_cpu_ = ::sched_getcpu();
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void PageToucher::forget(void* begin, size_t bytes) {
  auto* const first = static_cast<uint8_t*>(begin);
  const auto meets = [&](const Range& range) {
    return range.begin < first + bytes && first < range.end;
  };
  std::unique_lock lock(mutex_);
  std::erase_if(ranges_, meets);
  changed_.wait(lock, [&] { return !meets(touching_); });
}

void PageToucher::run() {
  // Threads that serve requests come first. This thread gets an idle processor or a small share,
  // and its wake-up preempts no other thread. If the system refuses, it runs at normal priority.
  const sched_param no_priority{};
  (void)::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &no_priority);
  (void)::setpriority(PRIO_PROCESS, 0, kNice);  // on Linux: of this thread only
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool movable = ::pthread_getaffinity_np(::pthread_self(), sizeof allowed, &allowed) == 0 &&
                       CPU_COUNT(&allowed) > 1;
  int left_cpu = -1;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !ranges_.empty(); });
    if (closing_) return;
    Range& range = ranges_.front();
    uint8_t* const next_step = range.begin + kStepBytes - uintptr_t(range.begin) % kStepBytes;
    touching_ = {range.begin, std::min(next_step, range.end), range.huge_pages};
    range.begin = touching_.end;
    if (range.begin == range.end) ranges_.pop_front();
    const int asking_cpu = asking_cpu_;
    lock.unlock();
    if (movable && asking_cpu != left_cpu) leave_cpu(allowed, left_cpu = asking_cpu);
    if (touching_.huge_pages) {
      (void)::madvise(touching_.begin, size_t(touching_.end - touching_.begin),
                      MADV_HUGEPAGE);  // advice: the kernel may refuse it
    }
    touch(touching_.begin, touching_.end);
    lock.lock();
    touching_ = {};
    changed_.notify_all();
  }
}

}  // namespace downpour::ps
