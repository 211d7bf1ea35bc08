// PageVector: a std::vector of plain numbers for bulk data on its way to or from a disk.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/base/units.h"

namespace downpour {

// Alignment that direct I/O requires of memory and file offsets.
constexpr size_t kPageBytes = 4 * kKiB;
/// Memory and image sections of at least this size are aligned to a page. Files are written
/// directly from such memory.
constexpr size_t kPagedBytesMin = 256 * kKiB;

/// An allocator for bulk data. Growing a vector does not zero the new elements; the caller must
/// write them. Large allocations are aligned to a page, so that direct I/O (bypassing the page
/// cache) can write from them.
template <typename T>
class PageAllocator {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  PageAllocator() = default;
  template <typename U>
  PageAllocator(const PageAllocator<U>&) {}  // NOLINT(google-explicit-constructor): allocators do

  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment(n))); }
  void deallocate(T* memory, size_t n) { ::operator delete(memory, alignment(n)); }
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  bool operator==(const PageAllocator&) const { return true; }

 private:
  static std::align_val_t alignment(size_t n) {
    return std::align_val_t(n * sizeof(T) >= kPagedBytesMin ? kPageBytes
                                                            : alignof(std::max_align_t));
  }
};

template <typename T>
using PageVector = std::vector<T, PageAllocator<T>>;

}  // namespace downpour
