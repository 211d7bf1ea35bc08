// QueuedStream: a stream whose writer does not wait for the reader of a terminal or pipe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>

namespace downpour {

class QueuedStream {
 public:
  static constexpr size_t kQueuedBytesMax = 1 << 20;

  /// Writes to the descriptor `fd`, which it does not own, on a thread of its own.
  explicit QueuedStream(int fd);
  QueuedStream(const QueuedStream&) = delete;
  QueuedStream& operator=(const QueuedStream&) = delete;
  /// Waits as drain() does.
  ~QueuedStream();

  /// The stream, which is written line by line. While kQueuedBytesMax wait for the reader, further
  /// lines are dropped. A note with their number follows the lines that waited.
  std::FILE* file() { return file_; }
  /// Waits until all that was printed is written.
  void drain();

 private:
  static ssize_t take(void* self, const char* text, size_t size);
  void run();
  void write_all(const std::string& text) const;

  const int fd_;
  std::FILE* file_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string queued_;
  uint64_t dropped_ = 0;  // lines
  bool writing_ = false, closing_ = false;
  std::thread thread_;
};

}  // namespace downpour
