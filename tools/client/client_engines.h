// Client engines: pass pulled batches from the thread of a worker to the threads of a program, and
// the results back.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "worker/runtime/engines.h"

namespace downpour::tools {

/// The batches of a client that wait for the program, and its results that wait for the worker. All
/// threads may use it.
class BatchQueue final {
 public:
  /// How the worker has ended.
  struct End {
    int32_t code = 0;
    std::string reason;
  };

  // For the thread of the worker.
  void open(const model::Graph& graph, std::function<void()> wake);
  void offer(worker::WorkerEffects::Compute&& compute);
  bool take_result(worker::Computed& computed);
  void end(End end);

  // For the threads of the program. They wait for at most `timeout_ns`.
  /// Returns the model when the job is known, otherwise null.
  const model::Graph* wait_for_job(int64_t timeout_ns);
  std::optional<worker::WorkerEffects::Compute> wait_for_batch(int64_t timeout_ns);
  void give(worker::Computed&& computed);
  std::optional<End> ended();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const model::Graph* graph_ = nullptr;
  std::function<void()> wake_;
  std::deque<worker::WorkerEffects::Compute> offered_;
  std::deque<worker::Computed> results_;
  std::optional<End> end_;
};

/// Returns engines that read with threads of this process and let the program compute. The queue
/// must outlive them.
std::unique_ptr<worker::Engines> make_client_engines(BatchQueue& queue);

}  // namespace downpour::tools
