// FileLock: a lock that one process holds at a time. The kernel releases it when the process ends,
// in any way.
#pragma once

#include <string>
#include <utility>

#include "shared/base/result.h"

namespace downpour {

/// An exclusive lock on a file, held until destruction. The file remains. It contains the text of
/// its last owner.
class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileLock();

  /// Locks the file `path` and writes `text` into it. Creates the file if it does not exist.
  /// Errors: kUnavailable if another process holds the lock (`what` is then its text); kPermission
  /// if `path` is a symbolic link; kCannotCreate; kIo.
  static Result<FileLock> take(const std::string& path, const std::string& text);
  bool held() const { return fd_ >= 0; }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace downpour
