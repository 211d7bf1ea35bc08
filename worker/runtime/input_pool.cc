#include "worker/runtime/input_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "shared/base/queue.h"
#include "shared/data/reading/program.h"

namespace downpour::worker {

InputPool::InputPool(ReaderOptions options, uint32_t threads, std::function<void()> wake)
    : options_(std::move(options)),
      wake_(std::move(wake)),
      waiting_max_(std::max(threads, 2U) - 1) {
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

InputPool::~InputPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (const auto& plan : {options_.train, options_.eval, options_.predict})
    if (plan != nullptr) data::stop_programs(*plan->programs);  // a slow one blocks its thread
  for (std::thread& thread : threads_) thread.join();
}

void InputPool::read(InputEffects::Read&& read) {
  bool waits = false;
  if (read.open) {
    const auto shard = find_leased(options_, read.open->lease);
    waits = shard && data::is_piece(*shard->plan, shard->ranges[0]);
  }
  {
    const std::lock_guard lock(mutex_);
    if (read.open) {
      shard_reads_[read.id] = std::make_shared<ShardRead>(
          ShardRead{.shard_read = {options_, std::move(*read.open)}, .waits = waits});
    }
    tasks_.push_back(read.id);
  }
  changed_.notify_one();
}

void InputPool::close(uint64_t id) {
  std::shared_ptr<ShardRead> last;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto at = shard_reads_.find(id);
  if (at == shard_reads_.end()) return;
  last = std::move(at->second);
  shard_reads_.erase(at);
}

bool InputPool::try_pop(InputItem& item) {
  const std::lock_guard lock(mutex_);
  return try_take_front(done_, item);
}

/// A piece of a stream may have to wait for its program, and no other task must wait for that. So
/// other tasks go first, and one thread is left for them. Of several pieces the first one is taken,
/// because the program produces it first.
std::deque<uint64_t>::iterator InputPool::next_task() {
  const auto waits = [&](uint64_t id) {
    const auto at = shard_reads_.find(id);
    return at != shard_reads_.end() && at->second->waits;
  };
  const auto task = std::find_if_not(tasks_.begin(), tasks_.end(), waits);
  if (task != tasks_.end() || waiting_ >= waiting_max_) return task;
  const auto place = [&](uint64_t id) {
    const wire::Lease& lease = shard_reads_.at(id)->shard_read.request().lease;
    return std::tuple(lease.shard.epoch, lease.shard.shard);
  };
  return std::min_element(tasks_.begin(), tasks_.end(),
                          [&](uint64_t a, uint64_t b) { return place(a) < place(b); });
}

void InputPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto task = tasks_.end();
    changed_.wait(lock, [&] { return closing_ || (task = next_task()) != tasks_.end(); });
    if (closing_) return;
    const uint64_t id = *task;
    tasks_.erase(task);
    const auto at = shard_reads_.find(id);
    if (at == shard_reads_.end()) continue;
    std::shared_ptr<ShardRead> shard_read = at->second;
    const bool waits = std::exchange(shard_read->waits, false);
    waiting_ += waits;
    lock.unlock();
    const uint64_t before = shard_read->shard_read.bytes();
    InputItem item = shard_read->shard_read.next(id);
    bytes_read_.fetch_add(shard_read->shard_read.bytes() - before, std::memory_order_relaxed);
    shard_read.reset();
    lock.lock();
    waiting_ -= waits;
    if (waits) changed_.notify_one();  // another thread may take the next piece
    const bool was_empty = done_.empty();
    done_.push_back(std::move(item));
    if (was_empty) wake_();
  }
}

}  // namespace downpour::worker
