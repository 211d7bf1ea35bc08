// ReaderPool: threads that read and parse shards and prepare the pulls of their batches, ahead of
// the core, into one bounded queue.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "worker/runtime/engines.h"

namespace downpour::worker {

class ReaderPool final : public Readers {
 public:
  /// The pool's threads call `wake` when an item enters an empty queue.
  ReaderPool(ReaderOptions options, std::function<void()> wake);
  ~ReaderPool() override;

  void read(const ReadTask& task) override;
  void stop(uint64_t shard_read) override;
  void set_placements(std::shared_ptr<const Placements> placements) override;
  bool try_pop(const WantsBatch& wants, ReadItem& item) override;
  uint64_t bytes_read() const override { return bytes_read_.load(std::memory_order_relaxed); }
  bool set_limits(const ReaderLimits& limits) override;
  Queue queue() const override {
    return {ready_batches_.load(std::memory_order_relaxed),
            room_batches_.load(std::memory_order_relaxed)};
  }
  Times times() const override {
    return {full_ns_.load(std::memory_order_relaxed), reading_ns_.load(std::memory_order_relaxed),
            runnable_ns_.load(std::memory_order_relaxed)};
  }

 private:
  // Batches return here when their last owner drops them, so that their vectors are reused.
  struct Recycler {
    std::mutex mutex;
    std::vector<std::unique_ptr<PreparedBatch>> free;
  };

  /// Measures how long a thread reads, and how long of that it is runnable.
  class Meter;

  void run();
  void read_shard(const ReadTask& task, std::unique_ptr<InputLink>& link, Meter& meter);
  /// Waits for room, and adds that time to `waited_ns`. Returns false if the pool closes or the
  /// shard read was stopped.
  bool push(ReadItem&& item, int64_t& waited_ns);
  PreparedBatchPtr fresh_batch();
  bool stopped(uint64_t shard_read);

  ReaderOptions options_;
  std::function<void()> wake_;
  std::shared_ptr<Recycler> recycler_ = std::make_shared<Recycler>();
  std::mutex mutex_;
  std::condition_variable tasks_changed_;
  std::condition_variable room_;
  std::deque<ReadTask> tasks_;
  ReadyItems ready_;
  // Changed under the lock; read without it.
  std::atomic<uint32_t> ready_batches_{0}, room_batches_{0};
  std::set<uint64_t> stopped_;
  bool closing_ = false;
  std::shared_ptr<const Placements> placements_;
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<int64_t> full_ns_{0}, reading_ns_{0}, runnable_ns_{0};
  std::vector<std::thread> threads_;  // as many as the highest ReaderLimits::shards so far
};

}  // namespace downpour::worker
