#include "shared/data/bytes/mapped_bytes.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <utility>

#include "shared/base/page_vector.h"
#include "shared/data/bytes/file.h"

namespace downpour::data {
namespace {

#ifdef MADV_POPULATE_READ
constexpr int kPopulateRead = MADV_POPULATE_READ;
#else
constexpr int kPopulateRead = 22;  // Linux 5.14; earlier kernels load each page when it is read
#endif

/// A mapped range. Written by its owner; read by the signal handler on the thread that receives the
/// signal.
struct Stretch {
  std::atomic<bool> used{false};
  std::atomic<uintptr_t> begin{0}, end{0};  // 0: not mapped
  std::atomic<bool> torn{false};
};
std::array<Stretch, kMappedBytesMax> stretches;
struct sigaction handler_before;

Stretch* stretch_of(uintptr_t address) {
  for (Stretch& stretch : stretches) {
    const uintptr_t begin = stretch.begin.load(std::memory_order_acquire);
    if (begin != 0 && begin <= address && address < stretch.end.load(std::memory_order_relaxed))
      return &stretch;
  }
  return nullptr;
}

/// Does only what a signal handler may do: mmap is a system call, and the list has no locks.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int before = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (Stretch* const stretch = stretch_of(address)) {
    void* const page = reinterpret_cast<void*>(address / kPageBytes * kPageBytes);
    void* const zeros =
        ::mmap(page, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == page) {
      stretch->torn.store(true, std::memory_order_release);
      errno = before;
      return;
    }
  }
  if ((handler_before.sa_flags & SA_SIGINFO) != 0 && handler_before.sa_sigaction != nullptr) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    ::signal(SIGBUS, SIG_DFL);
    ::raise(SIGBUS);  // ends the process after this function returns
  }
  errno = before;
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction handler {};
    handler.sa_sigaction = on_bus_error;
    handler.sa_flags = SA_SIGINFO;
    ::sigemptyset(&handler.sa_mask);
    ::sigaction(SIGBUS, &handler, &handler_before);
  });
}

std::optional<size_t> take_slot() {
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (!stretches[i].used.exchange(true, std::memory_order_acq_rel)) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<MappedBytes> MappedBytes::map(const File& file, uint64_t offset, size_t size) {
  if (size == 0) return std::nullopt;
  const auto slot = take_slot();
  if (!slot) return std::nullopt;
  handle_bus_errors();
  const size_t lead = size_t(offset % kPageBytes);
  void* const memory =
      ::mmap(nullptr, lead + size, PROT_READ, MAP_SHARED, file.descriptor(), off_t(offset - lead));
  if (memory == MAP_FAILED) {
    stretches[*slot].used.store(false, std::memory_order_release);
    return std::nullopt;
  }
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  Stretch& stretch = stretches[*slot];
  stretch.torn.store(false, std::memory_order_relaxed);
  stretch.end.store(begin + lead + size, std::memory_order_relaxed);
  stretch.begin.store(begin, std::memory_order_release);
  // Loads all pages at once, in place of a page fault for every few of them. If this fails, the
  // missing pages are loaded when they are read.
  ::madvise(memory, lead + size, kPopulateRead);
  return MappedBytes(*slot, static_cast<char*>(memory), lead + size, lead);
}

MappedBytes::MappedBytes(MappedBytes&& other) noexcept
    : slot_(other.slot_),
      begin_(std::exchange(other.begin_, nullptr)),
      size_(other.size_),
      lead_(other.lead_) {}

MappedBytes& MappedBytes::operator=(MappedBytes&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  slot_ = other.slot_;
  begin_ = std::exchange(other.begin_, nullptr);
  size_ = other.size_;
  lead_ = other.lead_;
  return *this;
}

MappedBytes::~MappedBytes() { unmap(); }

bool MappedBytes::is_torn() const { return stretches[slot_].torn.load(std::memory_order_acquire); }

void MappedBytes::unmap() {
  if (begin_ == nullptr) return;
  Stretch& stretch = stretches[slot_];
  stretch.begin.store(0, std::memory_order_release);
  ::munmap(begin_, size_);
  stretch.used.store(false, std::memory_order_release);
  begin_ = nullptr;
}

}  // namespace downpour::data
