#include "worker/runtime/compute_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/base/queue.h"
#include "shared/env/wait_front.h"
#include "worker/runtime/step_frames.h"

namespace downpour::worker {
namespace {

/// Returns which loss or gradient was not finite and, if they are the cause, which pulled values.
/// Empty if all losses and gradients are finite.
std::string why_not_finite(const model::Graph& graph, const Batch& batch,
                           std::span<const model::VariableView> views, const Computed& computed) {
  std::string why = computed.not_finite;
  for (size_t o = 0; o < computed.metrics.size() && o < graph.outputs().size(); ++o) {
    const double loss = computed.metrics[o].sums.loss;
    if (std::isfinite(loss)) continue;
    why = str("the loss of output `", graph.outputs()[o].name, "` is not finite (",
              std::isnan(loss) ? "NaN" : "infinite", ")");
    break;
  }
  if (why.empty()) return why;
  const std::vector<TableSpec>& tables = graph.tables();
  const std::vector<size_t> first = first_variables(tables);
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto of_table = std::find_if(batch.tables.begin(), batch.tables.end(),
                                       [&](const TableKeys& k) { return raw(k.table) == t; });
    const uint64_t keys = of_table == batch.tables.end() ? 0 : of_table->keys.size();
    for (size_t m = 0; m < tables[t].table_variables.size(); ++m) {
      const VariableSpec& table_variable = tables[t].table_variables[m];
      const uint64_t floats = tables[t].kind == TableKind::kEmbedding ? keys * table_variable.dim
                                                                      : table_variable.elements();
      const float* const values = views[first[t] + m].values;
      if (values == nullptr || all_finite(values, floats)) continue;
      return str(why, ", because variable ", table_variable.name,
                 " contains values that are not finite");
    }
  }
  return why;
}

/// Gives each variable memory of its own in `scratch`, and makes its view.
void lay_out_scratch(const std::vector<TableSpec>& tables, const Batch& batch, bool train,
                     StepScratch& scratch, std::vector<model::VariableView>& views) {
  scratch.values.resize(views.size());
  scratch.gradients.resize(views.size());
  const std::vector<uint64_t> floats = variable_floats(tables, batch);
  for (size_t v = 0; v < views.size(); ++v) {
    scratch.values[v].resize(floats[v]);
    if (train) scratch.gradients[v].resize(floats[v]);
    views[v] = {scratch.values[v].data(), train ? scratch.gradients[v].data() : nullptr};
  }
}

/// Returns the memory of each variable.
template <typename Float>
std::vector<Float*> starts_of(std::vector<std::vector<float>>& variables) {
  std::vector<Float*> starts;
  for (std::vector<float>& variable : variables) starts.push_back(variable.data());
  return starts;
}

/// Evaluates or predicts a batch.
void predict(const model::Graph& graph, const PreparedBatch& prepared,
             const std::vector<model::VariableView>& views, StepScratch& scratch, int threads,
             Computed& computed) {
  std::vector<std::vector<float>> predictions;
  std::vector<float> all;  // for the chief: predictions, or of an evaluation those with groups
  const bool eval = prepared.lease.purpose == wire::Purpose::kEval;
  graph.forward(prepared.batch, views, *scratch.workspace, threads, predictions,
                eval ? &computed.metrics : nullptr, &computed.slices, &all);
  for (const std::vector<float>& output : predictions)
    if (!eval) all.insert(all.end(), output.begin(), output.end());
  if (!all.empty()) computed.predictions = Bytes::of(std::move(all));
}

}  // namespace

Computed run_step(const model::Graph& graph, const WorkerEffects::Compute& compute,
                  StepScratch& scratch, int threads) {
  const std::vector<TableSpec>& tables = graph.tables();
  const std::vector<size_t> first = first_variables(tables);
  const PreparedBatch& prepared = *compute.batch;
  const PullPlan& plan = prepared.plan;
  const bool train = prepared.lease.purpose == wire::Purpose::kTrain;
  std::vector<model::VariableView> views(first.back());
  std::vector<Frame> frames(plan.messages.size());
  if (train) {
    for (size_t m = 0; m < frames.size(); ++m) frames[m] = make_frame(plan.messages[m].value_bytes);
  }

  const bool round = train && graph.local().has_value();
  const bool in_place = !round && plan.messages.size() == 1 &&
                        reinterpret_cast<uintptr_t>(compute.values[0].data()) % alignof(float) == 0;
  if (in_place) {
    const auto* values = reinterpret_cast<const float*>(compute.values[0].data());
    for_each_run(
        tables, plan, plan.messages[0],
        [&](TableId id, uint32_t m, uint64_t at, uint32_t, uint32_t, uint64_t) {
          views[first[raw(id)] + m] = {values + at, train ? frames[0].floats.get() + at : nullptr};
        });
  } else {
    lay_out_scratch(tables, prepared.batch, train, scratch, views);
    gather(tables, plan, compute.values, starts_of<float>(scratch.values));
  }

  Computed computed{.slot = compute.slot, .not_finite = {}};
  if (train) {
    if (round) {
      scratch.round.train(graph, prepared.batch, {compute.step, prepared.lease.rate_reductions},
                          scratch.values, *scratch.workspace, threads, scratch.gradients,
                          computed.metrics);
    } else {
      // Only a sample of the batches, because the AUC in the live line is a hint.
      const bool want_auc = prepared.batch.id.batch % 8 == 0;
      graph.train(prepared.batch, views, *scratch.workspace, threads, want_auc, computed.metrics);
    }
    const bool finite =
        in_place ? all_finite(frames[0].floats.get(), frames[0].bytes.size() / sizeof(float))
                 : scatter(tables, plan, starts_of<const float>(scratch.gradients), frames);
    if (!finite) computed.not_finite = "a gradient is not finite";
    for (Frame& frame : frames) computed.gradients.push_back(std::move(frame.bytes));
    const std::string why = why_not_finite(graph, prepared.batch, views, computed);
    if (!why.empty()) computed.not_finite = why;
    return computed;
  }
  predict(graph, prepared, views, scratch, threads, computed);
  return computed;
}

ComputePool::ComputePool(const model::Graph& graph, uint32_t threads, uint32_t threads_per_batch,
                         std::function<void()> wake)
    : graph_(graph), threads_per_batch_(int(threads_per_batch)), wake_(std::move(wake)) {
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

ComputePool::~ComputePool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ComputePool::start(WorkerEffects::Compute&& compute) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(compute));
  }
  changed_.notify_one();
}

bool ComputePool::try_pop(Computed& computed) {
  const std::lock_guard lock(mutex_);
  return try_take_front(done_, computed);
}

void ComputePool::run() {
  StepScratch scratch(graph_);
  for (;;) {
    auto task = wait_front(mutex_, changed_, closing_, tasks_);
    if (!task) return;
    Computed computed = run_step(graph_, *task, scratch, threads_per_batch_);
    task.reset();  // return the pulled frames to their pool before the result is handed over
    {
      const std::lock_guard lock(mutex_);
      done_.push_back(std::move(computed));
    }
    wake_();
  }
}

}  // namespace downpour::worker
