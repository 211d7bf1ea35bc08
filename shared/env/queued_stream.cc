#include "shared/env/queued_stream.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/str.h"

namespace downpour {

QueuedStream::QueuedStream(int fd) : fd_(fd) {
  file_ = ::fopencookie(this, "w", {.write = &QueuedStream::take});
  DP_CHECK(file_ != nullptr, errno);
  std::setvbuf(file_, nullptr, _IOLBF, BUFSIZ);
  thread_ = std::thread([this] { run(); });
}

QueuedStream::~QueuedStream() {
  std::fclose(file_);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void QueuedStream::drain() {
  std::fflush(file_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queued_.empty() && !writing_; });
}

ssize_t QueuedStream::take(void* self, const char* text, size_t size) {
  QueuedStream& stream = *static_cast<QueuedStream*>(self);
  {
    const std::lock_guard lock(stream.mutex_);
    if (stream.queued_.size() + size > kQueuedBytesMax) {
      stream.dropped_ += uint64_t(std::count(text, text + size, '\n'));
      return ssize_t(size);
    }
    stream.queued_.append(text, size);
  }
  stream.changed_.notify_all();
  return ssize_t(size);
}

void QueuedStream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !queued_.empty(); });
    if (queued_.empty()) return;
    std::string text = std::exchange(queued_, {});
    if (const uint64_t lines = std::exchange(dropped_, 0); lines > 0)
      text += str("note: ", lines, lines == 1 ? " line was" : " lines were", " not read in time\n");
    writing_ = true;
    lock.unlock();
    write_all(text);
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

void QueuedStream::write_all(const std::string& text) const {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n >= 0) {
      done += size_t(n);
    } else if (errno == EAGAIN) {
      pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;  // the reader is gone
    }
  }
}

}  // namespace downpour
