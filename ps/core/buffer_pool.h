// BufferPool: memory for pulled values, used again once the reply has been sent.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "shared/base/bytes.h"

namespace downpour::ps {

/// Fresh memory costs 60 times a kept buffer, so buffers are kept: `buffers_max` of them at most. A
/// buffer is free once no Bytes of it is left, whichever thread dropped the last one.
class BufferPool {
 public:
  explicit BufferPool(uint32_t buffers_max) : buffers_max_(buffers_max) {}

  struct Buffer {
    std::shared_ptr<uint8_t[]> memory;
    size_t capacity = 0;
    uint64_t taker = 0;  // the last one
    Bytes bytes(size_t size) const {
      const void* begin = memory.get();
      return Bytes(std::shared_ptr<const void>(memory, begin), begin, size);
    }
  };

  /// Room for `size` bytes for this taker, aligned to 16. Without memory if all buffers are in
  /// flight, if the system has none, or if the taker holds more than are left: a worker that is
  /// stopped keeps what it has asked for, and must not keep the others from being answered.
  Buffer take(size_t size, uint64_t taker) {
    const bool counted = ++taken_by(taker) <= buffers_max_ / 4 && taken_.size() <= buffers_max_;
    if (!counted && !may_take(taker)) return {};
    for (size_t tried = 0; tried < buffers_.size(); ++tried) {
      next_ = next_ + 1 < buffers_.size() ? next_ + 1 : 0;
      Buffer& buffer = buffers_[next_];
      if (buffer.memory.use_count() != 1) continue;
      // The copy's increment reads the last owner's decrement, so that its reads come before our
      // writes.
      { const std::shared_ptr<uint8_t[]> acquire = buffer.memory; }
      if (buffer.capacity < size && !grow(buffer, size)) return {};
      buffer.taker = taker;
      return buffer;
    }
    if (buffers_.size() >= buffers_max_) return {};
    Buffer made;
    made.taker = taker;
    if (!grow(made, size)) return {};
    buffers_.push_back(std::move(made));
    next_ = buffers_.size() - 1;
    return buffers_.back();
  }

 private:
  uint32_t& taken_by(uint64_t taker) {
    const auto same = [&](const auto& known) { return known.first == taker; };
    const auto known = std::find_if(taken_.begin(), taken_.end(), same);
    return known != taken_.end() ? known->second : taken_.emplace_back(taker, 0).second;
  }

  /// Counts what is in flight, which `taken_` only estimates from above.
  bool may_take(uint64_t taker) {
    taken_.clear();
    uint32_t in_flight = 0;
    for (const Buffer& buffer : buffers_) {
      if (buffer.memory.use_count() == 1) continue;
      ++taken_by(buffer.taker);
      ++in_flight;
    }
    return taken_by(taker)++ <= buffers_max_ - in_flight;
  }

  /// False: there is no memory, and the buffer stays as it was.
  static bool grow(Buffer& buffer, size_t size) {
    constexpr size_t kSmallest = 4096;
    const size_t capacity = std::bit_ceil(size < kSmallest ? kSmallest : size);
    auto* const memory = new (std::nothrow) uint8_t[capacity];
    if (memory == nullptr) return false;
    buffer.memory.reset(memory);
    buffer.capacity = capacity;
    return true;
  }

  uint32_t buffers_max_;
  size_t next_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<std::pair<uint64_t, uint32_t>> taken_;  // by taker: at least what it holds
};

}  // namespace downpour::ps
