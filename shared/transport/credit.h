// Credit: how many bytes are on their way to one peer. Waker: ends a poll from another thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "shared/base/bytes.h"

namespace downpour::transport {

/// An eventfd with a flag, so that waking one that is awake costs no system call. wake() from any
/// thread.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  int fd() const { return fd_; }
  void wake();
  /// By the polling thread, when fd() is readable, before it looks at what it was woken for.
  void clear();

 private:
  int fd_;
  std::atomic<bool> pending_{false};
};

/// Bytes handed to the library and not yet written. The owner adds; the library's I/O thread
/// releases.
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

  /// Whether `more` bytes may be added. Where not, the waker is called when about half has left. A
  /// single message always fits where nothing else is on its way.
  bool admits(uint64_t more) {
    if (fits(more)) return true;
    blocked_.store(true);
    return fits(more);  // what left in between will wake nobody
  }
  /// The owner was refused for another reason: wake it all the same when bytes leave.
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

/// Bytes in flight: counted against a credit for as long as it lives.
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
