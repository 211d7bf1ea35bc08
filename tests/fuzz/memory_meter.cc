#include "tests/fuzz/memory_meter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <malloc.h>
#include <unistd.h>

namespace downpour::fuzz {
namespace {

std::atomic<int64_t> now{0}, peak{0}, base{0}, limit{INT64_MAX};

void grew(size_t bytes) {
  const int64_t all = now.fetch_add(int64_t(bytes), std::memory_order_relaxed) + int64_t(bytes);
  if (all <= peak.load(std::memory_order_relaxed)) return;
  peak.store(all, std::memory_order_relaxed);
  if (all - base.load(std::memory_order_relaxed) > limit.load(std::memory_order_relaxed))
    ::_exit(kMemoryExit);
}
void shrank(size_t bytes) { now.fetch_sub(int64_t(bytes), std::memory_order_relaxed); }

}  // namespace

void begin_peak() {
  base.store(now.load());
  peak.store(now.load());
}
uint64_t peak_bytes() { return uint64_t(peak.load() - base.load()); }
void limit_memory(uint64_t bytes) { limit.store(int64_t(bytes)); }

}  // namespace downpour::fuzz

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The allocators of the sanitizers report every block through hooks. They are declared here because
// g++ lacks sanitizer/allocator_interface.h.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                              void (*on_free)(const volatile void*));
size_t __sanitizer_get_allocated_size(const volatile void* block);
}

namespace downpour::fuzz {

void start_meter() {
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t bytes) { grew(bytes); },
                                            [](const volatile void* block) {
                                              if (block != nullptr)
                                                shrank(__sanitizer_get_allocated_size(block));
                                            });
}

}  // namespace downpour::fuzz

#else

// These replace the allocation functions of glibc, which remain available under __libc_ names.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

static void* counted(void* block) {
  if (block != nullptr) downpour::fuzz::grew(::malloc_usable_size(block));
  return block;
}

void* malloc(size_t bytes) noexcept { return counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) noexcept { return counted(__libc_calloc(count, bytes)); }
void* realloc(void* block, size_t bytes) noexcept {
  const size_t before = block == nullptr ? 0 : ::malloc_usable_size(block);
  void* const grown = __libc_realloc(block, bytes);
  if (grown == nullptr && bytes > 0) return nullptr;
  downpour::fuzz::shrank(before);
  return counted(grown);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) noexcept {
  if (block != nullptr) downpour::fuzz::shrank(::malloc_usable_size(block));
  __libc_free(block);
}
}

namespace downpour::fuzz {

void start_meter() {}

}  // namespace downpour::fuzz

#endif
