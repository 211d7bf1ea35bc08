#include "worker/runtime/input_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "shared/data/program.h"
#include "shared/wire/batch_codec.h"

namespace downpour::worker {
namespace {

wire::Message message_of(wire::Body body) {
  wire::Message message;
  message.body = std::move(body);
  return message;
}

}  // namespace

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
    if (plan != nullptr) data::stop_programs(*plan->programs);  // else a slow one holds its thread
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
      auto reading = std::make_shared<Reading>();
      reading->request = std::move(*read.open);
      reading->waits = waits;
      readings_[read.id] = std::move(reading);
    }
    tasks_.push_back(read.id);
  }
  changed_.notify_one();
}

void InputPool::close(uint64_t id) {
  std::shared_ptr<Reading> last;  // what it holds is freed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto at = readings_.find(id);
  if (at == readings_.end()) return;
  last = std::move(at->second);
  readings_.erase(at);
}

bool InputPool::try_pop(InputItem& item) {
  const std::lock_guard lock(mutex_);
  if (done_.empty()) return false;
  item = std::move(done_.front());
  done_.pop_front();
  return true;
}

/// A piece may have to wait for its program, and nothing else must wait for it: the others go
/// first, and one thread is left to them. Of several pieces the first one: it is what the program
/// gives first.
std::deque<uint64_t>::iterator InputPool::next_task() {
  const auto waits = [&](uint64_t id) {
    const auto at = readings_.find(id);
    return at != readings_.end() && at->second->waits;
  };
  const auto task = std::find_if_not(tasks_.begin(), tasks_.end(), waits);
  if (task != tasks_.end() || waiting_ >= waiting_max_) return task;
  const auto place = [&](uint64_t id) {
    const wire::Lease& lease = readings_.at(id)->request.lease;
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
    const auto at = readings_.find(id);
    if (at == readings_.end()) continue;
    std::shared_ptr<Reading> reading = at->second;
    const bool waits = std::exchange(reading->waits, false);
    waiting_ += waits;
    lock.unlock();
    InputItem item = read_one(id, *reading);
    reading.reset();
    lock.lock();
    waiting_ -= waits;
    if (waits) changed_.notify_one();  // who may wait for the next
    const bool was_empty = done_.empty();
    done_.push_back(std::move(item));
    if (was_empty) wake_();
  }
}

InputItem InputPool::read_one(uint64_t id, Reading& reading) {
  InputItem item{.id = id};
  auto messages = next_batch(reading, item.last);
  if (!messages) {
    item.last = true;
    Error error = std::move(messages).error();
    std::optional<uint32_t> batch;
    if (reading.reader != nullptr) batch = reading.reader->failed_batch();
    item.messages.push_back(message_of(wire::ReadFailed{.reading = reading.request.reading,
                                                        .code = error.code,
                                                        .what = std::move(error.what),
                                                        .where = std::move(error.where),
                                                        .hint = std::move(error.hint),
                                                        .id = std::move(error.id),
                                                        .of_record = batch.has_value(),
                                                        .batch = batch.value_or(0)}));
    return item;
  }
  item.messages = std::move(*messages);
  for (const wire::Message& message : item.messages) item.bytes += message.values.size();
  return item;
}

Result<std::vector<wire::Message>> InputPool::next_batch(Reading& reading, bool& last) {
  const wire::ReadShard& request = reading.request;
  std::vector<wire::Message> messages;
  if (reading.reader == nullptr) {
    DP_TRY(const LeasedShard shard, find_leased(options_, request.lease));
    DP_TRY(reading.reader, open_leased(shard, request.lease, request.first_batch));
  }
  DP_TRY(const bool more, reading.reader->next(reading.batch));
  if (!more) {
    last = true;
    const data::ShardTotals& totals = reading.reader->totals();
    messages.push_back(message_of(wire::ReadEnd{.reading = request.reading,
                                                .counts = counts_of(totals),
                                                .records_hash = totals.records_hash}));
    return messages;
  }
  const uint64_t before =
      std::exchange(reading.offset, std::max(reading.offset, reading.batch.end_offset));
  if (!reading.reader->is_kept())
    bytes_read_.fetch_add(reading.offset - before, std::memory_order_relaxed);
  DP_TRY(const Bytes bytes, wire::encode_batch(reading.batch));
  const std::vector<Bytes> pieces = wire::cut_batch(bytes);
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    messages.push_back(message_of(wire::ReadBatch{.reading = request.reading,
                                                  .batch = reading.batch.id.batch,
                                                  .piece = i,
                                                  .pieces = uint32_t(pieces.size())}));
    messages.back().values = pieces[i];
  }
  return messages;
}

}  // namespace downpour::worker
