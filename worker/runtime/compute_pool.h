// ComputePool: threads that run the model on pulled batches. Each batch runs on one thread, which
// may use OpenMP.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/runtime/engines.h"
#include "worker/runtime/local_round.h"

namespace downpour::worker {

class ComputePool final : public Computers {
 public:
  /// Computes `threads` batches at once, each with `threads_per_batch` OpenMP threads. Its threads
  /// call `wake` when something can be popped.
  ComputePool(const model::Graph& graph, uint32_t threads, uint32_t threads_per_batch,
              std::function<void()> wake);
  ~ComputePool() override;

  void start(WorkerEffects::Compute&& compute) override;
  bool try_pop(Computed& computed) override;

 private:
  void run();

  const model::Graph& graph_;
  const int threads_per_batch_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkerEffects::Compute> tasks_;
  std::deque<Computed> done_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/// Scratch memory of one thread for run_step(). It joins the rows of a variable that arrived in
/// several messages.
struct StepScratch {
  explicit StepScratch(const model::Graph& graph) : workspace(graph.make_workspace()) {}
  std::unique_ptr<model::Workspace, void (*)(model::Workspace*)> workspace;
  std::vector<std::vector<float>> values, gradients;  // by variable
  LocalRound round;
};

/// Runs one batch through the model: gathers the pulled frames, computes, and cuts the gradients
/// into frames again. With a single message nothing is copied. In mode "local" the batch has the
/// records of a round, and its changes take the place of gradients (LocalRound).
Computed run_step(const model::Graph& graph, const WorkerEffects::Compute& compute,
                  StepScratch& scratch, int threads);

}  // namespace downpour::worker
