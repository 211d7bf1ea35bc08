// BufferPool: reusable memory for pulled values. A buffer is reused after its reply has been sent.
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

/// Keeps at most `buffers_max` buffers, because fresh memory costs 60 times as much as a kept
/// buffer. A buffer is free when no Bytes refers to it, whichever thread dropped the last one.
class BufferPool {
 public:
  explicit BufferPool(uint32_t buffers_max) : buffers_max_(buffers_max) {}

  struct Buffer {
    std::shared_ptr<uint8_t[]> memory;
    size_t capacity = 0;
    uint64_t taker = 0;  // the last taker
    Bytes bytes(size_t size) const {
      const void* begin = memory.get();
      return Bytes(std::shared_ptr<const void>(memory, begin), begin, size);
    }
  };

  /// Returns a buffer of at least `size` bytes for this taker, aligned to 16 bytes. Returns one
  /// without memory if all buffers are in flight, if the system has no memory, or if the taker
  /// holds more buffers than are left. The last rule protects the other workers: a stopped worker
  /// holds the replies that it has requested, and must not take every buffer.
  Buffer take(size_t size, uint64_t taker) {
    const bool counted = ++taken_by(taker) <= buffers_max_ / 4 && taken_.size() <= buffers_max_;
    if (!counted && !may_take(taker)) return {};
    for (Buffer& buffer : buffers_) {  // the first free one, so that the last ones stay unused
      if (buffer.memory.use_count() != 1) continue;
      // Incrementing the count of this copy reads the decrement by the last owner. So the owner's
      // reads happen before our writes.
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
    return buffers_.back();
  }

 private:
  uint32_t& taken_by(uint64_t taker) {
    const auto same = [&](const auto& known) { return known.first == taker; };
    const auto known = std::find_if(taken_.begin(), taken_.end(), same);
    return known != taken_.end() ? known->second : taken_.emplace_back(taker, 0).second;
  }

  /// Counts the buffers in flight exactly. `taken_` is only an upper bound.
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

  /// Returns false if there is no memory. The buffer is unchanged then.
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
  std::vector<Buffer> buffers_;
  std::vector<std::pair<uint64_t, uint32_t>> taken_;  // by taker: at least its buffers in flight
};

}  // namespace downpour::ps
