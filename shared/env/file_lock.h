// File lock: one process at a time. The kernel gives it up when the process ends, however it ends.
#pragma once

#include <string>
#include <utility>

#include "shared/base/result.h"

namespace downpour {

/// An exclusive lock on a file, held until destruction. The file stays, and tells whose lock it
/// was.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileLock();

  /// Locks `path`, made where it is not there, and writes `text` into it. Error kUnavailable where
  /// another process holds it; `what` is then the text that it wrote. Others: kCannotCreate, kIo.
  static Result<FileLock> take(const std::string& path, const std::string& text);
  bool held() const { return fd_ >= 0; }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace downpour
