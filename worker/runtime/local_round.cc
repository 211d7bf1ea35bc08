#include "worker/runtime/local_round.h"

#include <algorithm>

#include "shared/base/check.h"
#include "shared/base/sizes.h"
#include "shared/metrics/merge_outputs.h"
#include "shared/optim/schedule.h"

namespace downpour::worker {

void LocalRound::train(const model::Graph& graph, const Batch& all, Place place,
                       const std::vector<std::vector<float>>& pulled, model::Workspace& workspace,
                       int threads, std::vector<std::vector<float>>& changes,
                       model::BatchMetrics& metrics) {
  const model::LocalTraining& local = *graph.local();
  begin(graph, pulled);
  metrics.clear();
  model::BatchMetrics of_batch;
  std::vector<model::VariableView> views(copies_.size());
  // Of earlier shares of an epoch, a replica knows only that they have about as many batches.
  const uint64_t steps_of_round =
      local.whole_epochs ? divide_up(all.records, local.batch_size) : local.steps;
  const uint64_t steps_before = (std::max<uint64_t>(place.round, 1) - 1) * steps_of_round;
  for (uint32_t k = 0, first = 0; first < all.records; ++k, first += local.batch_size) {
    const uint32_t end = std::min(all.records, first + local.batch_size);
    const BatchId id{all.id.epoch, all.id.shard, all.id.batch * local.steps + k};
    slice_.cut(all, first, end, id);
    gather(views);
    const bool want_auc = id.batch % 8 == 0;  // a sample, as for other batches
    graph.train(slice_.batch(), views, workspace, threads, want_auc, of_batch);
    merge_outputs(metrics, of_batch);
    update(k + 1, steps_before + k + 1, place.rate_reductions);
  }
  changes.resize(copies_.size());
  for (size_t v = 0; v < copies_.size(); ++v) {
    const Copy& copy = copies_[v];
    changes[v].resize(pulled[v].size());
    for (size_t r = 0; r < copy.row_count(); ++r) {
      const float* const trained = copy.rows.data() + r * copy.stride;
      const size_t at = r * copy.dim;
      for (size_t i = 0; i < copy.dim; ++i)
        changes[v][at + i] = (pulled[v][at + i] - trained[i]) * float(all.records);
    }
  }
}

/// Copies the pulled values, and starts the slots.
void LocalRound::begin(const model::Graph& graph, const std::vector<std::vector<float>>& pulled) {
  copies_.resize(pulled.size());
  size_t v = 0;
  for (size_t t = 0; t < graph.tables().size(); ++t) {
    const TableSpec& table = graph.tables()[t];
    for (const VariableSpec& variable : table.table_variables) {
      Copy& copy = copies_[v];
      copy.optimizer = graph.local()->optimizers[v];
      copy.dense = table.kind == TableKind::kDense;
      copy.table = t;
      copy.dim = copy.dense ? uint32_t(variable.elements()) : variable.dim;
      copy.stride = optim::stored_floats(copy.optimizer, copy.dim);
      const size_t rows = pulled[v].size() / copy.dim;
      copy.rows.resize(rows * copy.stride);
      for (size_t r = 0; r < rows; ++r) {
        float* const row = copy.rows.data() + r * copy.stride;
        std::copy_n(pulled[v].data() + r * copy.dim, copy.dim, row);
        optim::start_slots(copy.optimizer, copy.dim, row);
      }
      ++v;
    }
  }
  DP_CHECK(v == pulled.size(), v, pulled.size());
}

/// Makes the views of the current batch. A dense variable is used in place.
void LocalRound::gather(std::vector<model::VariableView>& views) {
  for (size_t v = 0; v < copies_.size(); ++v) {
    Copy& copy = copies_[v];
    if (copy.dense) {
      copy.gradient.resize(copy.dim);
      views[v] = {copy.rows.data(), copy.gradient.data()};
      continue;
    }
    const std::vector<uint32_t>& rows = slice_.rows(copy.table);
    copy.values.resize(rows.size() * copy.dim);
    copy.gradient.resize(copy.values.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(copy.rows.data() + rows[i] * copy.stride, copy.dim,
                  copy.values.data() + i * copy.dim);
    }
    views[v] = {copy.values.data(), copy.gradient.data()};
  }
}

/// Applies the gradients of the current batch. `step` counts the batches of all rounds, for the
/// schedule; `step_of_round` those since the slots began, for Adam's bias correction.
void LocalRound::update(uint32_t step_of_round, uint64_t step, uint32_t rate_reductions) {
  for (Copy& copy : copies_) {
    OptimizerSpec spec = copy.optimizer;
    spec.learning_rate *= float(optim::schedule_factor(spec.schedule, step, rate_reductions));
    spec.schedule = {};
    updates_.clear();
    const size_t rows = copy.dense ? copy.row_count() : slice_.rows(copy.table).size();
    for (uint32_t i = 0; i < rows; ++i)
      updates_.push_back({.row = copy.dense ? i : slice_.rows(copy.table)[i], .gradient = i});
    rates_.clear();
    if (optim::rate_needs_step(spec)) rates_.assign(rows, optim::step_rate(spec, step_of_round));
    optim::update_kernel(spec, copy.dim)(
        spec, {.base = copy.rows.data(), .stride = copy.stride, .dim = copy.dim}, updates_,
        rates_.data(), copy.gradient.data());
  }
}

}  // namespace downpour::worker
