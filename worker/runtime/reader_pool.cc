#include "worker/runtime/reader_pool.h"

#include <chrono>
#include <utility>

#include "shared/base/thread_time.h"
#include "shared/base/units.h"
#include "shared/env/wait_front.h"

namespace downpour::worker {

namespace {

constexpr int64_t kMeterNs = 20 * kMillisecond;  // between measurements

int64_t steady_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

/// Measures only now and then, because each measurement is a system call.
class ReaderPool::Meter {
 public:
  explicit Meter(ReaderPool& pool) : pool_(pool) {}
  void begin() {
    since_ns_ = steady_ns();
    waited_ns_ = 0;
    runnable_ns_ = runnable_ns();
  }
  void look() {
    const int64_t now_ns = steady_ns();
    if (now_ns - since_ns_ < kMeterNs) return;
    const int64_t runnable = runnable_ns();
    if (runnable > runnable_ns_) {
      pool_.reading_ns_ += now_ns - since_ns_ - waited_ns_;
      pool_.runnable_ns_ += runnable - runnable_ns_;
    }
    begin();
  }
  /// Time that does not count as reading.
  int64_t& waited_ns() { return waited_ns_; }

 private:
  int64_t runnable_ns() const {
    const auto sums = time_.so_far();
    return sums ? sums->ran_ns + sums->waited_ns : 0;
  }

  ReaderPool& pool_;
  const ThreadTime time_;
  int64_t since_ns_ = 0, waited_ns_ = 0, runnable_ns_ = 0;
};

ReaderPool::ReaderPool(ReaderOptions options, std::function<void()> wake)
    : options_(std::move(options)), wake_(std::move(wake)), ready_(options_.room_by_shard) {
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
    if (plan != nullptr) data::stop_programs(*plan->programs);  // a slow one blocks its thread
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

void ReaderPool::stop(uint64_t shard_read) {
  {
    const std::lock_guard lock(mutex_);
    stopped_.insert(shard_read);
    std::erase_if(tasks_, [&](const ReadTask& task) { return task.shard_read == shard_read; });
    ready_.drop(shard_read);
    ready_batches_ = ready_.batches();
  }
  room_.notify_all();
}

void ReaderPool::set_placements(std::shared_ptr<const Placements> placements) {
  const std::lock_guard lock(mutex_);
  placements_ = std::move(placements);
}

bool ReaderPool::try_pop(const WantsBatch& wants, ReadItem& item) {
  {
    const std::lock_guard lock(mutex_);
    if (!ready_.try_pop(wants, item)) return false;
    if (!item.batch) return true;
    ready_batches_ = ready_.batches();
  }
  if (options_.room_by_shard) {
    room_.notify_all();  // only the reader of this shard has room now
  } else {
    room_.notify_one();
  }
  return true;
}

bool ReaderPool::stopped(uint64_t shard_read) {
  const std::lock_guard lock(mutex_);
  return closing_ || stopped_.contains(shard_read);
}

bool ReaderPool::push(ReadItem&& item, int64_t& waited_ns) {
  bool was_empty = false;
  {
    std::unique_lock lock(mutex_);
    const auto room = [&] {
      return closing_ || stopped_.contains(item.shard_read) || !item.batch ||
             ready_.has_room(item.shard_read, options_.limits);
    };
    if (!room()) {
      const int64_t since_ns = steady_ns();
      room_.wait(lock, room);
      const int64_t waited = steady_ns() - since_ns;
      full_ns_ += waited;
      waited_ns += waited;
    }
    if (closing_ || stopped_.contains(item.shard_read)) return false;
    was_empty = ready_.empty();
    ready_.push(std::move(item));
    ready_batches_ = ready_.batches();
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
  std::unique_ptr<InputLink> link;  // made when some input process may read
  Meter meter(*this);
  for (;;) {
    auto task = wait_front(mutex_, tasks_changed_, closing_, tasks_);
    if (!task) return;
    read_shard(*task, link, meter);
    const std::lock_guard lock(mutex_);
    stopped_.erase(task->shard_read);
  }
}

void ReaderPool::read_shard(const ReadTask& task, std::unique_ptr<InputLink>& link, Meter& meter) {
  RemoteShardRead remote;
  if (options_.inputs != nullptr && options_.inputs->in_use()) {
    if (link == nullptr) link = make_input_link(options_.inputs->options().keyring);
    remote = {.inputs = options_.inputs.get(), .link = link.get(), .stopped = [this, &task] {
                return stopped(task.shard_read);
              }};
  }
  ShardRead shard_read(options_, task, std::move(remote));
  meter.begin();
  for (bool more = true; more;) {
    if (stopped(task.shard_read)) return;
    std::shared_ptr<const Placements> placements;
    {
      const std::lock_guard lock(mutex_);
      placements = placements_;
    }
    const uint64_t before = shard_read.bytes();
    ReadItem item = shard_read.next(fresh_batch(), std::move(placements));
    bytes_read_.fetch_add(shard_read.bytes() - before, std::memory_order_relaxed);
    more = !item.last;
    const bool pushed = push(std::move(item), meter.waited_ns());
    meter.look();
    if (!pushed) return;
  }
}

}  // namespace downpour::worker
