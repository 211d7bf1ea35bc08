// PageVector: a std::vector of plain numbers for bulk data on its way to or from a disk.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/base/units.h"

namespace downpour {

constexpr size_t kPageBytes = 4 * kKiB;  // what disks ask of memory and offsets they copy from
/// Memory and sections of images at least this large begin at a page, and reach the disk from
/// there.
constexpr size_t kPagedBytesMin = 256 * kKiB;

/// Whoever resizes writes: new elements are not zeroed. What is large begins at a page, so that a
/// file past the page cache can be written from it.
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
