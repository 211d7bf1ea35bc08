// Credit: counts the bytes in flight to one peer. Waker: ends a poll from another thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "shared/base/bytes.h"
#include "shared/base/descriptor.h"

namespace downpour::transport {

/// An eventfd with a flag, so that a wake() that is already pending needs no system call. Any
/// thread may call wake().
class Waker {
 public:
  Waker();

  int fd() const { return fd_.get(); }
  void wake();
  /// Resets the waker. The polling thread calls it when fd() is readable, before it looks for work.
  void clear();

 private:
  const Descriptor fd_;
  std::atomic<bool> pending_{false};
};

/// The bytes that were passed to ZeroMQ and not yet written. The owner adds bytes; the I/O thread
/// of ZeroMQ releases them.
class Credit {
 public:
  Credit(std::shared_ptr<Waker> waker, uint64_t bytes_max)
      : waker_(std::move(waker)), bytes_max_(bytes_max) {}

  void add(uint64_t bytes) { bytes_.fetch_add(bytes); }
  void release(uint64_t bytes) {
    const uint64_t left = bytes_.fetch_sub(bytes) - bytes;
    if (left <= bytes_max_ / 2 && blocked_.load()) unblock();
  }
  uint64_t bytes() const { return bytes_.load(); }

  /// Returns true if `more` bytes may be added. After false, the waker is called when about half of
  /// the bytes have left. A message of any size is admitted if nothing is in flight.
  bool admits(uint64_t more) {
    if (fits(more)) return true;
    blocked_.store(true);
    // check again, because bytes that left before the flag was set wake no thread
    return fits(more);
  }
  /// Requests a wake-up when bytes leave, although the credit itself did not refuse.
  void block() { blocked_.store(true); }
  void unblock() {
    if (blocked_.exchange(false)) waker_->wake();
  }

 private:
  bool fits(uint64_t more) const {
    const uint64_t now = bytes_.load();
    return now == 0 || now + more <= bytes_max_;
  }

  std::shared_ptr<Waker> waker_;
  const uint64_t bytes_max_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> blocked_{false};
};

/// Bytes in flight. They count against a credit for the parcel's lifetime.
class Parcel {
 public:
  Parcel(Bytes bytes, std::shared_ptr<Credit> credit)
      : bytes_(std::move(bytes)), credit_(std::move(credit)) {
    credit_->add(bytes_.size());
  }
  ~Parcel() { credit_->release(bytes_.size()); }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  std::shared_ptr<Credit> credit_;
};

}  // namespace downpour::transport
