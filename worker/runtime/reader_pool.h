// Reader pool: threads that read, parse and plan shards ahead of the core, into one bounded queue.
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

#include "shared/data/dataset.h"
#include "shared/plan/shard.h"
#include "worker/core/events.h"

namespace downpour::worker {

struct ReaderOptions {
  std::shared_ptr<const data::ReadPlan> train;
  std::shared_ptr<const data::ReadPlan> eval;  // the same as `train` with a holdout
  std::shared_ptr<const data::ReadPlan> predict;  // as `eval`, but targets may be missing
  std::vector<plan::ShardRange> train_ranges;
  std::vector<plan::ShardRange> eval_ranges;
  bool eval_held_out = false;  // eval reads the held-out side of the training files
  std::vector<TableSpec> tables;
  uint64_t seed = 1;
  uint32_t threads = 1;
  uint32_t batches_max = 4;  // ready and not yet taken
};

class ReaderPool {
 public:
  /// One of batch, end, error is set. In the order of the shard.
  struct Item {
    uint64_t reading = 0;
    PreparedBatchPtr batch;
    std::optional<ShardEnd> end;
    std::optional<Error> error;
  };

  /// `wake` is called from the pool's threads whenever the queue was empty and is no more.
  ReaderPool(ReaderOptions options, std::function<void()> wake);
  ~ReaderPool();

  void read(const wire::Lease& lease, uint32_t first_batch, uint64_t reading);
  void stop(uint64_t reading);
  void set_placements(std::shared_ptr<const Placements> placements);
  /// Takes the next item; a batch only if `take_batch`.
  bool try_pop(bool take_batch, Item& item);
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  struct Task {
    wire::Lease lease;
    uint32_t first_batch = 0;
    uint64_t reading = 0;
  };
  // Batches go back here when the last owner lets go of them, so that their vectors are used again.
  struct Recycler {
    std::mutex mutex;
    std::vector<std::unique_ptr<PreparedBatch>> free;
  };

  void run();
  void read_shard(const Task& task);
  bool push(Item&& item);
  PreparedBatchPtr fresh_batch();
  bool stopped(uint64_t reading);

  ReaderOptions options_;
  std::function<void()> wake_;
  std::shared_ptr<Recycler> recycler_ = std::make_shared<Recycler>();
  std::mutex mutex_;
  std::condition_variable tasks_changed_;
  std::condition_variable room_;
  std::deque<Task> tasks_;
  std::deque<Item> ready_;
  uint32_t ready_batches_ = 0;
  std::set<uint64_t> stopped_;
  bool closing_ = false;
  std::shared_ptr<const Placements> placements_;
  std::atomic<uint64_t> bytes_read_{0};
  std::vector<std::thread> threads_;
};

}  // namespace downpour::worker
