#include "worker/runtime/reader_pool.h"

#include <chrono>
#include <utility>

namespace downpour::worker {

ReaderPool::ReaderPool(ReaderOptions options, std::function<void()> wake)
    : options_(std::move(options)), wake_(std::move(wake)) {
  set_limits(options_.limits);
}

ReaderPool::~ReaderPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  tasks_changed_.notify_all();
  room_.notify_all();
  for (const auto& plan : {options_.train, options_.eval, options_.predict})
    if (plan != nullptr) data::stop_programs(*plan->programs);  // else a slow one holds its thread
  for (std::thread& thread : threads_) thread.join();
}

bool ReaderPool::set_limits(const ReaderLimits& limits) {
  {
    const std::lock_guard lock(mutex_);
    options_.limits = limits;
    room_batches_ = limits.batches;
  }
  room_.notify_all();
  while (threads_.size() < limits.shards) threads_.emplace_back([this] { run(); });
  return true;
}

void ReaderPool::read(const ReadTask& task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
  }
  tasks_changed_.notify_one();
}

void ReaderPool::stop(uint64_t reading) {
  {
    const std::lock_guard lock(mutex_);
    stopped_.insert(reading);
    std::erase_if(tasks_, [&](const ReadTask& task) { return task.reading == reading; });
    std::erase_if(ready_, [&](const ReadItem& item) {
      if (item.reading != reading) return false;
      if (item.batch) --ready_batches_;
      return true;
    });
  }
  room_.notify_all();
}

void ReaderPool::set_placements(std::shared_ptr<const Placements> placements) {
  const std::lock_guard lock(mutex_);
  placements_ = std::move(placements);
}

bool ReaderPool::try_pop(bool take_batch, ReadItem& item) {
  {
    const std::lock_guard lock(mutex_);
    if (ready_.empty() || (ready_.front().batch && !take_batch)) return false;
    item = std::move(ready_.front());
    ready_.pop_front();
    if (!item.batch) return true;
    --ready_batches_;
  }
  room_.notify_one();
  return true;
}

bool ReaderPool::stopped(uint64_t reading) {
  const std::lock_guard lock(mutex_);
  return closing_ || stopped_.contains(reading);
}

bool ReaderPool::push(ReadItem&& item) {
  bool was_empty = false;
  {
    std::unique_lock lock(mutex_);
    const auto room = [&] {
      return closing_ || stopped_.contains(item.reading) || !item.batch ||
             ready_batches_ < options_.limits.batches;
    };
    if (!room()) {
      const auto since = std::chrono::steady_clock::now();
      room_.wait(lock, room);
      full_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - since).count();
    }
    if (closing_ || stopped_.contains(item.reading)) return false;
    if (item.batch) ++ready_batches_;
    was_empty = ready_.empty();
    ready_.push_back(std::move(item));
  }
  if (was_empty) wake_();
  return true;
}

PreparedBatchPtr ReaderPool::fresh_batch() {
  std::unique_ptr<PreparedBatch> batch;
  {
    const std::lock_guard lock(recycler_->mutex);
    if (!recycler_->free.empty()) {
      batch = std::move(recycler_->free.back());
      recycler_->free.pop_back();
    }
  }
  if (!batch) batch = std::make_unique<PreparedBatch>();
  return PreparedBatchPtr(batch.release(), [recycler = recycler_](PreparedBatch* used) {
    std::unique_ptr<PreparedBatch> owned(used);
    owned->plan = {};
    const std::lock_guard lock(recycler->mutex);
    recycler->free.push_back(std::move(owned));
  });
}

void ReaderPool::run() {
  std::unique_ptr<InputLink> link;  // once some input process may read
  for (;;) {
    ReadTask task;
    {
      std::unique_lock lock(mutex_);
      tasks_changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
      if (closing_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    read_shard(task, link);
    const std::lock_guard lock(mutex_);
    stopped_.erase(task.reading);
  }
}

void ReaderPool::read_shard(const ReadTask& task, std::unique_ptr<InputLink>& link) {
  RemoteReading remote;
  if (options_.inputs != nullptr && options_.inputs->in_use()) {
    if (link == nullptr) link = make_input_link();
    remote = {.inputs = options_.inputs.get(), .link = link.get(), .stopped = [this, &task] {
                return stopped(task.reading);
              }};
  }
  ShardReading reading(options_, task, std::move(remote));
  for (bool more = true; more;) {
    if (stopped(task.reading)) return;
    std::shared_ptr<const Placements> placements;
    {
      const std::lock_guard lock(mutex_);
      placements = placements_;
    }
    const uint64_t before = reading.bytes();
    ReadItem item = reading.next(fresh_batch(), std::move(placements));
    bytes_read_.fetch_add(reading.bytes() - before, std::memory_order_relaxed);
    more = !item.last;
    if (!push(std::move(item))) return;
  }
}

}  // namespace downpour::worker
