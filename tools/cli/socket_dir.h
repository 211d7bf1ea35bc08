// SocketDir: a folder for the Unix sockets of one local job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/file_lock.h"

namespace downpour::tools {

/// A folder `downpour-XXXXXX` with mode 0700, which the destructor removes. Its file `lock` stays
/// locked (flock) while the owner runs, so that a later job can recognize and remove the folder of
/// a process that was killed.
class SocketDir {
 public:
  SocketDir() = default;
  SocketDir(SocketDir&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  SocketDir& operator=(SocketDir&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  ~SocketDir();

  /// Makes the folder in the first of `parents` that is writable and short enough for the path of a
  /// socket, and removes stale folders of this user there. Error kCannotCreate contains the reason
  /// for each parent.
  static Result<SocketDir> create(const std::vector<std::string>& parents);
  const std::string& path() const { return path_; }

 private:
  static Result<SocketDir> create_in(const std::string& parent);

  std::string path_;
  FileLock lock_;
};

/// Returns $TMPDIR if it is set, then /tmp.
std::vector<std::string> socket_dir_parents();

/// Removes the folders of SocketDir in `parent` that belong to this user and whose owning process
/// has ended. It follows no links, and removes only sockets and the lock.
void remove_stale_socket_dirs(const std::string& parent);

}  // namespace downpour::tools
