// Input pool: the threads of an input process. Each takes a reading that has room, reads one batch
// of it and makes messages of it.
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
  /// `wake` is called from the pool's threads: something can be popped.
  InputPool(ReaderOptions options, uint32_t threads, std::function<void()> wake);
  ~InputPool() override;
  InputPool(const InputPool&) = delete;
  InputPool& operator=(const InputPool&) = delete;

  void read(InputEffects::Read&& read) override;
  void close(uint64_t id) override;
  bool try_pop(InputItem& item) override;
  uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  // One thread at a time has it: the core asks for one batch after the other.
  struct ShardRead {
    InputShardRead shard_read;
    bool waits = false;  // it is to be opened, and has to wait for a program
  };

  void run();
  /// The task that is to be done next; the end of tasks_: none that this thread may.
  std::deque<uint64_t>::iterator next_task();

  ReaderOptions options_;
  std::function<void()> wake_;
  const size_t waiting_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<ShardRead>> shard_reads_;
  std::deque<uint64_t> tasks_;
  size_t waiting_ = 0;  // threads that open a piece
  std::deque<InputItem> done_;
  bool closing_ = false;
  std::atomic<uint64_t> bytes_read_{0};
  std::vector<std::thread> threads_;
};

}  // namespace downpour::worker
