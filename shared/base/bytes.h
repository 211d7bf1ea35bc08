// Bytes: an immutable view of bytes that shares ownership of its memory (heap, pool or message).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "shared/base/check.h"

namespace downpour {

/// A view of bytes that keeps the owner of its memory alive. A copy of a Bytes copies no byte. The
/// memory may be unaligned.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, const void* data, size_t size)
      : owner_(std::move(owner)), data_(static_cast<const uint8_t*>(data)), size_(size) {}

  /// Returns a copy on the heap.
  static Bytes copy_of(const void* data, size_t size) {
    std::shared_ptr<uint8_t[]> memory(new uint8_t[size == 0 ? 1 : size]);
    if (size > 0) std::memcpy(memory.get(), data, size);
    const void* begin = memory.get();
    return Bytes(std::shared_ptr<const void>(memory, begin), begin, size);
  }
  /// Takes ownership of a container with data() and size(), e.g. std::vector<float>.
  template <typename Container>
  static Bytes of(Container&& container) {
    auto owner = std::make_shared<std::decay_t<Container>>(std::forward<Container>(container));
    const void* data = owner->data();
    const size_t size = owner->size() * sizeof(*owner->data());
    return Bytes(std::move(owner), data, size);
  }

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const uint8_t> span() const { return {data_, size_}; }
  Bytes slice(size_t begin, size_t size) const {
    DP_CHECK(begin <= size_ && size <= size_ - begin, begin, size, size_);
    return Bytes(owner_, data_ + begin, size);
  }
  /// Returns the number of whole elements of T. The memory may be unaligned, so read through load()
  /// or through a type with alignment 1.
  template <typename T>
  size_t count() const {
    return size_ / sizeof(T);
  }
  template <typename T>
  T load(size_t index) const {
    T value;
    std::memcpy(&value, data_ + index * sizeof(T), sizeof(T));
    return value;
  }

 private:
  std::shared_ptr<const void> owner_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace downpour
