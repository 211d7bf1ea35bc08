#include "tools/client/client_engines.h"

#include <chrono>
#include <utility>

#include "shared/base/queue.h"

namespace downpour::tools {
namespace {

class ClientComputers final : public worker::Computers {
 public:
  explicit ClientComputers(BatchQueue& queue) : queue_(queue) {}
  void start(worker::WorkerEffects::Compute&& compute) override {
    queue_.offer(std::move(compute));
  }
  bool try_pop(worker::Computed& computed) override { return queue_.take_result(computed); }

 private:
  BatchQueue& queue_;
};

class ClientEngines final : public worker::Engines {
 public:
  explicit ClientEngines(BatchQueue& queue) : queue_(queue) {}

  Result<void> check(const model::Graph& graph) const override {
    if (graph.is_custom()) return {};
    return Error{ErrorCode::kConfig,
                 "the job has a model of layers, which downpour-worker computes", "model",
                 "declare model.variables in place of layers or a preset (docs/python.md)"};
  }
  std::unique_ptr<worker::Readers> make_readers(worker::ReaderOptions options,
                                                std::function<void()> wake) override {
    return threads_->make_readers(std::move(options), std::move(wake));
  }
  std::unique_ptr<worker::Computers> make_computers(const model::Graph& graph, uint32_t /*threads*/,
                                                    uint32_t /*threads_per_batch*/,
                                                    std::function<void()> wake) override {
    queue_.open(graph, std::move(wake));
    return std::make_unique<ClientComputers>(queue_);
  }

 private:
  BatchQueue& queue_;
  std::unique_ptr<worker::Engines> threads_ = worker::make_thread_engines();
};

}  // namespace

void BatchQueue::open(const model::Graph& graph, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  graph_ = &graph;
  wake_ = std::move(wake);
  changed_.notify_all();
}

void BatchQueue::offer(worker::WorkerEffects::Compute&& compute) {
  const std::lock_guard lock(mutex_);
  offered_.push_back(std::move(compute));
  changed_.notify_one();
}

bool BatchQueue::take_result(worker::Computed& computed) {
  const std::lock_guard lock(mutex_);
  return try_take_front(results_, computed);
}

void BatchQueue::end(End end) {
  const std::lock_guard lock(mutex_);
  end_ = std::move(end);
  wake_ = nullptr;
  offered_.clear();
  changed_.notify_all();
}

const model::Graph* BatchQueue::wait_for_job(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                    [&] { return graph_ != nullptr || end_; });
  return graph_;
}

std::optional<worker::WorkerEffects::Compute> BatchQueue::wait_for_batch(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                    [&] { return !offered_.empty() || end_; });
  if (offered_.empty()) return std::nullopt;
  std::optional<worker::WorkerEffects::Compute> compute(std::move(offered_.front()));
  offered_.pop_front();
  return compute;
}

void BatchQueue::give(worker::Computed&& computed) {
  const std::lock_guard lock(mutex_);
  if (end_) return;  // another worker computes the batch
  results_.push_back(std::move(computed));
  wake_();
}

std::optional<BatchQueue::End> BatchQueue::ended() {
  const std::lock_guard lock(mutex_);
  return end_;
}

std::unique_ptr<worker::Engines> make_client_engines(BatchQueue& queue) {
  return std::make_unique<ClientEngines>(queue);
}

}  // namespace downpour::tools
