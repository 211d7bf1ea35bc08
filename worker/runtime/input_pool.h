// InputPool: the threads of an input process. A thread takes a shard read that has room, reads one
// of its batches and makes messages of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/core/input_shard_reads.h"
#include "worker/runtime/engines.h"
#include "worker/runtime/input_shard_read.h"

namespace downpour::worker {

class InputPool final : public InputReaders {
 public:
  /// The pool's threads call `wake` when something can be popped.
  InputPool(ReaderOptions options, uint32_t threads, std::function<void()> wake);
  ~InputPool() override;
  InputPool(const InputPool&) = delete;
  InputPool& operator=(const InputPool&) = delete;

  void read(InputEffects::Read&& read) override;
  void close(uint64_t id) override;
  bool try_pop(InputItem& item) override;
  uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  // Used by one thread at a time, because the core requests one batch after the other.
  struct ShardRead {
    InputShardRead shard_read;
    bool waits = false;  // must still be opened, and may wait for a program
  };

  void run();
  /// Returns the next task that this thread may do, or the end of tasks_.
  std::deque<uint64_t>::iterator next_task();

  ReaderOptions options_;
  std::function<void()> wake_;
  const size_t waiting_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<ShardRead>> shard_reads_;
  std::deque<uint64_t> tasks_;
  size_t waiting_ = 0;  // threads that may wait for a program
  std::deque<InputItem> done_;
  bool closing_ = false;
  std::atomic<uint64_t> bytes_read_{0};
  std::vector<std::thread> threads_;
};

}  // namespace downpour::worker
