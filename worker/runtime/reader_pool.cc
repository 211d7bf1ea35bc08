#include "worker/runtime/reader_pool.h"

#include <utility>

namespace downpour::worker {

ReaderPool::ReaderPool(ReaderOptions options, std::function<void()> wake)
    : options_(std::move(options)), wake_(std::move(wake)) {
  for (uint32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

ReaderPool::~ReaderPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  tasks_changed_.notify_all();
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReaderPool::read(const wire::Lease& lease, uint32_t first_batch, uint64_t reading) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({lease, first_batch, reading});
  }
  tasks_changed_.notify_one();
}

void ReaderPool::stop(uint64_t reading) {
  {
    const std::lock_guard lock(mutex_);
    stopped_.insert(reading);
    std::erase_if(tasks_, [&](const Task& task) { return task.reading == reading; });
    std::erase_if(ready_, [&](const Item& item) {
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

bool ReaderPool::try_pop(bool take_batch, Item& item) {
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

bool ReaderPool::push(Item&& item) {
  bool was_empty = false;
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] {
      return closing_ || stopped_.contains(item.reading) || !item.batch ||
             ready_batches_ < options_.batches_max;
    });
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
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      tasks_changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
      if (closing_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    read_shard(task);
    const std::lock_guard lock(mutex_);
    stopped_.erase(task.reading);
  }
}

void ReaderPool::read_shard(const Task& task) {
  const bool train = task.lease.purpose == wire::Purpose::kTrain;
  const auto& ranges = train ? options_.train_ranges : options_.eval_ranges;
  const auto fail = [&](Error error) {
    push({.reading = task.reading, .error = std::move(error)});
  };
  const uint32_t place = task.lease.shard.shard;
  if (place >= ranges.size()) {
    return fail(Error{ErrorCode::kBug, str("shard ", place, " of ", ranges.size(), " was leased")});
  }
  const uint32_t index =
      train ? plan::order_at(options_.seed, task.lease.shard.epoch, uint32_t(ranges.size()), place)
            : place;
  const data::Part part =
      train ? (options_.train->holdout > 0 ? data::Part::kTrain : data::Part::kAll)
            : (options_.eval_held_out ? data::Part::kHeldOut : data::Part::kAll);
  const auto& plan = train                                           ? options_.train
                     : task.lease.purpose == wire::Purpose::kPredict ? options_.predict
                                                                     : options_.eval;
  auto opened = data::open_shard(plan, part, task.lease.shard,
                                 ranges[index], task.first_batch);
  if (!opened) return fail(std::move(opened).error());
  data::ShardReader& reader = **opened;
  uint64_t offset = 0;
  for (;;) {
    if (stopped(task.reading)) return;
    PreparedBatchPtr prepared = fresh_batch();
    auto more = reader.next(prepared->batch);
    if (!more) return fail(std::move(more).error());
    if (!*more) break;
    prepared->lease = task.lease;
    prepared->reading = task.reading;
    if (prepared->batch.end_offset > offset) {
      bytes_read_.fetch_add(prepared->batch.end_offset - offset, std::memory_order_relaxed);
      offset = prepared->batch.end_offset;
    }
    std::shared_ptr<const Placements> placements;
    {
      const std::lock_guard lock(mutex_);
      placements = placements_;
    }
    if (placements) {
      prepared->plan = make_pull_plan(options_.tables, std::move(placements), wire::kFrameBytesMax,
                                      prepared->batch);
    }
    if (!push({.reading = task.reading, .batch = std::move(prepared)})) return;
  }
  const data::ShardTotals& totals = reader.totals();
  ShardEnd end{.reading = task.reading, .records_hash = totals.records_hash};
  end.counts = {.batches = totals.batches,
                .read = totals.counts.read,
                .applied = totals.counts.read - totals.counts.filtered - totals.counts.skipped -
                           totals.counts.dropped,
                .filtered = totals.counts.filtered,
                .skipped = totals.counts.skipped,
                .dropped = totals.counts.dropped,
                .first_offset = totals.first_offset,
                .end_offset = totals.end_offset};
  push({.reading = task.reading, .end = std::move(end)});
}

}  // namespace downpour::worker
