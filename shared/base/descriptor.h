// Descriptor: owns a file descriptor.
#pragma once

#include <unistd.h>
#include <utility>

namespace downpour {

/// Owns a file descriptor and closes it in its destructor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Returns the descriptor. The caller must close it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace downpour
