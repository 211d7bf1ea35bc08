#include "shared/env/file_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/str.h"
#include "shared/env/beneath.h"
#include "shared/env/io_error.h"

namespace downpour {
namespace {

constexpr size_t kTextBytesMax = 1024;

Error failed(const char* call, const std::string& path) {
  return io_error(call, path, errno, Intent::kCreate);
}

std::string text_of(int fd) {
  char text[kTextBytesMax];
  const ssize_t bytes = pread(fd, text, sizeof(text), 0);
  return bytes > 0 ? std::string(text, size_t(bytes)) : std::string();
}

}  // namespace

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

Result<FileLock> FileLock::take(const std::string& path, const std::string& text) {
  for (;;) {
    // Do not follow a link, because the file that it names would be truncated.
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == ELOOP) return link_error(path);
    if (fd < 0) return failed("open", path);
    FileLock lock(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Error{ErrorCode::kUnavailable, text_of(fd), path};
      return failed("flock", path);
    }
    // Another process may have removed or replaced the file between open() and flock(). A lock on
    // the removed file protects nothing, so try again.
    struct stat named {};
    struct stat locked {};
    if (fstat(fd, &locked) != 0) return failed("fstat", path);
    if (lstat(path.c_str(), &named) != 0 || named.st_ino != locked.st_ino ||
        named.st_dev != locked.st_dev) {
      continue;
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) != ssize_t(text.size())) {
      return failed("write", path);
    }
    return lock;
  }
}

}  // namespace downpour
