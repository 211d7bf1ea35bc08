#include "shared/model/graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/hash.h"
#include "shared/model/clip.h"
#include "shared/model/compile.h"
#include "shared/model/execute.h"
#include "shared/model/groups.h"
#include "shared/model/losses.h"
#include "shared/model/negatives.h"
#include "shared/model/parallel.h"
#include "shared/model/slices.h"
#include "shared/model/workspace.h"

namespace downpour::model {
namespace {

/// Checks the shape of a batch. A mismatch is a programmer error, because readers build batches
/// from the layout.
void check_batch(const Program& program, const Batch& batch, size_t floats) {
  const InputLayout& layout = program.layout;
  const size_t records = batch.records;
  DP_CHECK(batch.floats.size() >= floats, batch.floats.size(), floats);
  for (size_t i = 0; i < floats; ++i) {
    const FloatColumn& column = batch.floats[i];
    DP_CHECK(column.width == layout.floats[i].width, layout.floats[i].field, column.width);
    DP_CHECK(column.values.size() == records * column.width, layout.floats[i].field);
  }
  DP_CHECK(batch.bags.size() == layout.bags.size(), batch.bags.size(), layout.bags.size());
  for (size_t i = 0; i < batch.bags.size(); ++i) {
    const BagColumn& bag = batch.bags[i];
    const size_t keys = bag.offsets.empty() ? records : size_t{bag.offsets.back()};
    DP_CHECK(bag.offsets.empty() || bag.offsets.size() == records + 1, layout.bags[i].field);
    DP_CHECK(bag.keys.size() == keys, layout.bags[i].field, bag.keys.size(), keys);
    DP_CHECK(bag.values.empty() || bag.values.size() == keys, layout.bags[i].field);
  }
  DP_CHECK(batch.tables.size() == layout.tables.size(), batch.tables.size());
}

/// Returns the sum of the sample weights that count for an output. A loss that compares counts a
/// record once, not each of its `group` rows, which have the same weight.
double weight_of_batch(const Output& output, const Batch& batch, uint32_t group) {
  const double rows = output.weights != kNoIndex ? sum_weights(batch.floats[output.weights].values)
                                                 : double(batch.records);
  return info_of(output.loss).compares ? rows / group : rows;
}

std::vector<GradientView> gradients_of(const Program& program, const Batch& batch,
                                       std::span<const VariableView> variables) {
  std::vector<GradientView> gradients;
  for (size_t v = 0; v < variables.size(); ++v) {
    const Variable& variable = program.variables[v];
    const size_t rows = variable.dense ? 1 : batch.tables[variable.table].keys.size();
    gradients.emplace_back(variables[v].gradient, rows * variable.floats);
  }
  return gradients;
}

}  // namespace

struct Graph::Impl {
  Program program;
  std::vector<uint32_t> widths;
  bool custom = false;
};

namespace {

/// One call of train() or forward().
class Step final {
 public:
  Step(const Program& program, const BatchRows& rows, std::span<const VariableView> variables,
       Workspace& workspace, int threads)
      : program_(program),
        batch_(rows.batch),
        group_(rows.group),
        chunk_rows_(program.chunk_rows - program.chunk_rows % group_),
        slot_rows_(program.slot_rows - program.slot_rows % group_),
        variables_(variables),
        workspace_(workspace),
        slots_((batch_.records + slot_rows_ - 1) / slot_rows_),
        threads_(usable_threads(threads, slots_)) {
    DP_CHECK(variables.size() == program.variables.size(), variables.size(),
             program.variables.size());
    if (workspace_.arenas.size() < size_t(threads_)) workspace_.arenas.resize(size_t(threads_));
    for (int t = 0; t < threads_; ++t) prepare(program_, workspace_.arenas[size_t(t)]);
    if (!workspace_.keyed.empty()) return;
    for (const KeyedInput& keyed : program_.keyed) {
      const DenseOp& dense = dense_of(keyed);
      workspace_.keyed.emplace_back(pool_of(keyed), program_.values[dense.output].width,
                                    program_.any_key_order);
    }
  }

  void train(bool want_auc, BatchMetrics& metrics) {
    check_batch(program_, batch_, program_.layout.floats.size());
    set_scales();
    begin_metrics(want_auc);
    clear_row_gradients();
    if (slots_ == 0) clear_dense_gradients();
    workspace_.dense_gradients.ensure(slots_ > 1 ? (slots_ - 1) * program_.dense_floats : 0);
    saved_ = threads_ > 1
                 ? workspace_.saved_gradients.ensure(batch_.records * program_.saved_floats)
                 : nullptr;
    multiply_keyed();
    parallel_for(threads_, slots_, [&](size_t slot, int thread) { train_slot(slot, thread); });
    if (saved_ != nullptr) sum_row_gradients();
    sum_dense_gradients();
    sum_keyed_gradients();
    if (program_.clip.given()) clip();
    if (program_.async_mean || program_.async_clip > 0) finish_async();
    end_metrics(want_auc, metrics);
  }

  void forward(std::vector<std::vector<float>>& predictions, BatchMetrics* metrics,
               std::vector<OutputMetrics>* slices, std::vector<float>* grouped) {
    slicing_ = slices != nullptr && metrics != nullptr && has_slices(program_, batch_);
    const size_t floats =
        metrics != nullptr ? program_.layout.floats.size() : program_.input_floats;
    check_batch(program_, batch_, floats);
    predictions.resize(program_.outputs.size());
    for (size_t o = 0; o < predictions.size(); ++o) {
      predictions[o].resize(size_t{batch_.records} * program_.outputs[o].width);
    }
    if (metrics != nullptr) begin_metrics(true);
    multiply_keyed();
    parallel_for(threads_, slots_, [&](size_t slot, int thread) {
      for_chunks(slot, [&](Rows rows) {
        Chunk chunk = make_chunk(rows, thread);
        run_forward(chunk);
        for (size_t o = 0; o < predictions.size(); ++o) {
          const Output& output = program_.outputs[o];
          predict(output, program_.raw, chunk.value(output.input), rows.count(),
                  predictions[o].data() + rows.begin * output.width);
          if (metrics != nullptr) run_loss(chunk, slot, o, false);
        }
      });
    });
    if (metrics != nullptr) end_metrics(true, *metrics);
    if (slicing_) end_slices(*slices);
    if (grouped == nullptr || metrics == nullptr || !has_groups(program_, batch_)) return;
    std::vector<const float*> logits;
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      logits.push_back(ranks(o) ? workspace_.ranked[o].data() : nullptr);
    add_groups(program_, batch_, logits, *grouped);
  }

 private:
  template <typename F>
  void for_chunks(size_t slot, const F& f) const {
    const size_t end = std::min<size_t>(batch_.records, (slot + 1) * slot_rows_);
    for (size_t begin = slot * slot_rows_; begin < end; begin += chunk_rows_) {
      f(Rows{begin, std::min<size_t>(end, begin + chunk_rows_)});
    }
  }

  Chunk make_chunk(Rows rows, int thread) const {
    return Chunk{program_,         batch_, variables_, workspace_.arenas[size_t(thread)],
                 workspace_.keyed, rows};
  }

  const PoolOp& pool_of(const KeyedInput& keyed) const {
    return std::get<PoolOp>(program_.ops[keyed.pool]);
  }
  const DenseOp& dense_of(const KeyedInput& keyed) const {
    return std::get<DenseOp>(program_.ops[keyed.dense]);
  }
  /// Return the offset of the pool's first block in the layer's kernel, and the size of all its
  /// blocks, in floats.
  size_t keyed_floats_before(const KeyedInput& keyed) const {
    return size_t{keyed.column} * program_.values[dense_of(keyed).output].width;
  }
  size_t keyed_floats(const KeyedInput& keyed) const {
    return size_t{program_.values[pool_of(keyed).output].width} *
           program_.values[dense_of(keyed).output].width;
  }

  void multiply_keyed() {
    for (size_t i = 0; i < program_.keyed.size(); ++i) {
      const KeyedInput& keyed = program_.keyed[i];
      if (!workspace_.keyed[i].begin(batch_)) continue;
      workspace_.keyed[i].forward(
          bag_views(batch_, variables_, pool_of(keyed).bags, workspace_.arenas[0]),
          variables_[dense_of(keyed).kernel].values + keyed_floats_before(keyed), threads_);
    }
  }

  void sum_keyed_gradients() {
    for (size_t i = 0; i < program_.keyed.size(); ++i) {
      const KeyedInput& keyed = program_.keyed[i];
      if (!workspace_.keyed[i].active()) continue;
      const VariableView& kernel = variables_[dense_of(keyed).kernel];
      const size_t before = keyed_floats_before(keyed);
      workspace_.keyed[i].backward(
          bag_views(batch_, variables_, pool_of(keyed).bags, workspace_.arenas[0]),
          kernel.values + before, kernel.gradient + before, threads_);
    }
  }

  void train_slot(size_t slot, int thread) {
    const BatchId id = batch_.id;
    const uint64_t batch_seed =
        hash_combine(uint64_t{id.epoch} << 32 | id.shard, uint64_t{id.batch});
    for_chunks(slot, [&](Rows rows) {
      Chunk chunk = make_chunk(rows, thread);
      chunk.training = true;
      chunk.batch_seed = batch_seed;
      chunk.first_of_slot = rows.begin == slot * slot_rows_;
      chunk.saved = saved_;
      if (slot > 0) {
        chunk.dense_gradients =
            workspace_.dense_gradients.data() + (slot - 1) * program_.dense_floats;
      }
      run_forward(chunk);
      for (size_t o = 0; o < program_.outputs.size(); ++o) run_loss(chunk, slot, o, true);
      run_backward(chunk);
    });
  }

  void run_loss(const Chunk& chunk, size_t slot, size_t o, bool training) {
    const Output& output = program_.outputs[o];
    const FloatColumn& target = targets_of(output, batch_);
    LossChunk loss;
    loss.rows = chunk.rows.count();
    loss.group = group_;
    loss.width = output.width;
    loss.x = chunk.value(output.input);
    loss.offset = output.offset;
    loss.unit = output.scale;
    loss.option = output.option;
    loss.smoothing = output.smoothing;
    loss.top_k = output.top_k;
    loss.targets = target.values.data() + chunk.rows.begin * target.width;
    if (output.weights != kNoIndex) {
      loss.weights = batch_.floats[output.weights].values.data() + chunk.rows.begin;
    }
    if (training && program_.values[output.input].needs_gradient) {
      loss.gradient = chunk.gradient(output.input);
      loss.accumulate = output.accumulate_gradient;
      loss.scale = workspace_.scales[o];
    }
    loss.scratch = chunk.arena.scratch.data();
    loss.sums = &workspace_.slots[slot].sums[o];
    loss.class_counts = workspace_.slots[slot].class_counts[o];
    loss_and_gradient(output.loss, loss);
    if (slicing_)
      add_slices(program_, batch_, o, chunk.rows.begin, loss, workspace_.slots[slot].slices);
    if (float* ranked = workspace_.ranked[o].data(); ranked != nullptr && ranks(o)) {
      // With the offset, so that the histogram shows on which side of 0 a logit is.
      for (size_t r = 0; r < loss.rows; ++r)
        ranked[chunk.rows.begin + r] = loss.x.data[r * loss.x.stride] + loss.offset;
    }
  }

  void end_slices(std::vector<OutputMetrics>& slices) {
    slices.assign(slice_count(program_), {});
    for (size_t s = 0; s < slots_; ++s)
      for (size_t i = 0; i < slices.size(); ++i) slices[i].sums += workspace_.slots[s].slices[i];
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      if (!ranks(o) || batch_.records == 0) continue;
      rank_slices(program_, batch_, o, workspace_.ranked[o].data(), workspace_.histogram, slices);
    }
  }

  bool ranks(size_t o) const {
    return ranking_ && info_of(program_.outputs[o].loss).target == TargetType::kBinary &&
           program_.outputs[o].width == 1;
  }

  /// Computes the factor of each output's gradient. For "mean" it is the output's weight, divided
  /// by the sum of the sample weights that count; 0 if that sum is 0.
  void set_scales() {
    workspace_.scales.clear();
    for (const Output& output : program_.outputs) {
      const double divisor = program_.mean ? weight_of_batch(output, batch_, group_) : 1;
      workspace_.scales.push_back(divisor > 0 ? float(double(output.weight) / divisor) : 0.0F);
    }
  }

  void begin_metrics(bool want_auc) {
    ranking_ = want_auc;
    workspace_.ranked.resize(program_.outputs.size());
    if (workspace_.slots.size() < slots_) workspace_.slots.resize(slots_);
    for (size_t s = 0; s < slots_; ++s) {
      SlotSums& slot = workspace_.slots[s];
      slot.sums.assign(program_.outputs.size(), OutputSums{});
      slot.slices.assign(slicing_ ? slice_count(program_) : 0, OutputSums{});
      slot.class_counts.resize(program_.outputs.size());
      for (size_t o = 0; o < program_.outputs.size(); ++o) {
        const bool classes = program_.outputs[o].loss == Loss::kSoftmax;
        slot.class_counts[o].assign(classes ? program_.outputs[o].width : 0, 0);
      }
    }
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      if (ranks(o)) workspace_.ranked[o].ensure(batch_.records);
    }
  }

  void end_metrics(bool want_auc, BatchMetrics& metrics) {
    metrics.resize(program_.outputs.size());
    for (size_t o = 0; o < metrics.size(); ++o) {
      const Output& output = program_.outputs[o];
      OutputMetrics& m = metrics[o];
      m.sums = {};
      m.auc.clear();
      m.class_counts.assign(output.loss == Loss::kSoftmax ? output.width : 0, 0);
      for (size_t s = 0; s < slots_; ++s) {
        m.sums += workspace_.slots[s].sums[o];
        const std::vector<uint64_t>& counts = workspace_.slots[s].class_counts[o];
        for (size_t c = 0; c < counts.size(); ++c) m.class_counts[c] += counts[c];
      }
      if (want_auc && ranks(o) && batch_.records > 0) rank(o, m);
    }
  }

  void rank(size_t o, OutputMetrics& m) {
    const Output& output = program_.outputs[o];
    std::span<const float> weights;
    if (output.weights != kNoIndex) weights = batch_.floats[output.weights].values;
    workspace_.histogram.clear();
    workspace_.histogram.add({workspace_.ranked[o].data(), batch_.records},
                             targets_of(output, batch_).values, weights);
    workspace_.histogram.to_sparse(m.auc);
  }

  void clip() { clip_gradients(program_.clip, gradients_of(program_, batch_, variables_)); }

  /// Divides and clips the gradients of the tables that no step combines with those of other
  /// batches.
  void finish_async() {
    const double divisor =
        program_.async_mean ? weight_of_batch(program_.outputs[0], batch_, group_) : 1;
    const float factor = divisor > 0 ? float(1.0 / divisor) : 0.0F;
    std::vector<GradientView> gradients;
    for (size_t v = 0; v < variables_.size(); ++v) {
      const Variable& variable = program_.variables[v];
      if (program_.tables[variable.table].group != RowGroup::kAsync) continue;
      const size_t rows = batch_.tables[variable.table].keys.size();
      gradients.emplace_back(variables_[v].gradient, rows * variable.floats);
      for (float& element : gradients.back()) element *= factor;
    }
    clip_gradients({.value = program_.async_clip}, gradients);
  }

  void clear_row_gradients() {
    for (size_t v = 0; v < variables_.size(); ++v) {
      const Variable& variable = program_.variables[v];
      if (variable.dense) continue;
      const size_t keys = batch_.tables[variable.table].keys.size();
      if (keys > 0) std::memset(variables_[v].gradient, 0, keys * variable.floats * sizeof(float));
    }
  }

  void clear_dense_gradients() {
    for (size_t v = 0; v < variables_.size(); ++v) {
      const Variable& variable = program_.variables[v];
      if (variable.dense) std::fill_n(variables_[v].gradient, variable.floats, 0.0F);
    }
  }

  /// Sums the gradients of embedding rows. Every thread goes through all records in order, and sums
  /// only the keys of its own share.
  void sum_row_gradients() {
    parallel_for(threads_, size_t(threads_), [&](size_t share, int thread) {
      for (size_t slot = 0; slot < slots_; ++slot) {
        for_chunks(slot, [&](Rows rows) {
          Chunk chunk = make_chunk(rows, thread);
          chunk.saved = saved_;
          sum_saved(chunk, {uint32_t(share), uint32_t(threads_)});
        });
      }
    });
  }

  void sum_dense_gradients() {
    if (slots_ <= 1) return;
    parallel_for(threads_, variables_.size(), [&](size_t v, int) {
      const Variable& variable = program_.variables[v];
      if (!variable.dense) return;
      const auto [begin, end] = keyed_in(v);
      sum_slots(v, 0, begin);
      sum_slots(v, end, variable.floats);
    });
  }

  /// Adds floats [begin, end) of the later slots' gradients to the first slot's gradient.
  void sum_slots(size_t v, size_t begin, size_t end) {
    const size_t floats = end - begin;
    for (size_t slot = 1; slot < slots_ && floats > 0; ++slot) {
      const float* part = workspace_.dense_gradients.data() + (slot - 1) * program_.dense_floats +
                          program_.variables[v].dense_offset;
      copy({part + begin, floats}, {variables_[v].gradient + begin, floats}, 1, floats, true);
    }
  }

  /// Returns the range (begin, end) of a dense variable's floats whose gradient a KeyedProduct
  /// computes. The slots have no gradient for them. If there are none, both are the end of the
  /// variable.
  std::pair<size_t, size_t> keyed_in(size_t v) const {
    for (size_t i = 0; i < program_.keyed.size(); ++i) {
      const KeyedInput& keyed = program_.keyed[i];
      if (dense_of(keyed).kernel != v || !workspace_.keyed[i].active()) continue;
      const size_t begin = keyed_floats_before(keyed);
      return {begin, begin + keyed_floats(keyed)};
    }
    return {program_.variables[v].floats, program_.variables[v].floats};
  }

  const Program& program_;
  const Batch& batch_;
  const uint32_t group_;                 // rows of a record
  const size_t chunk_rows_, slot_rows_;  // multiples of group_
  std::span<const VariableView> variables_;
  Workspace& workspace_;
  size_t slots_;
  int threads_;
  bool ranking_ = false;
  bool slicing_ = false;
  float* saved_ = nullptr;
};

}  // namespace

Error custom_refused() {
  return {ErrorCode::kUnsupported,
          "the model has no layers to compute, because its job declares model.variables",
          "model.variables",
          "compute it in the program that trained it; `downpour export` writes its variables"};
}

Result<std::unique_ptr<Graph>> Graph::build(const Job& job) {
  DP_TRY(Program program, compile(job));
  program.raw = job.eval.raw_predictions;
  auto impl = std::make_unique<Impl>();
  for (const Output& output : program.outputs) impl->widths.push_back(output.width);
  impl->program = std::move(program);
  impl->custom = job.model.is_custom();
  return std::unique_ptr<Graph>(new Graph(std::move(impl)));
}

Graph::Graph(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Graph::~Graph() = default;

const std::vector<TableSpec>& Graph::tables() const { return impl_->program.tables; }
const InputLayout& Graph::inputs() const { return impl_->program.layout; }
const std::vector<OutputSpec>& Graph::outputs() const { return impl_->program.output_specs; }
uint32_t Graph::chunk_rows() const { return impl_->program.chunk_rows; }
std::vector<uint32_t> Graph::output_widths() const { return impl_->widths; }
bool Graph::is_custom() const { return impl_->custom; }
const std::optional<LocalTraining>& Graph::local() const { return impl_->program.local; }

std::unique_ptr<Workspace, void (*)(Workspace*)> Graph::make_workspace() const {
  return {new Workspace, [](Workspace* workspace) { delete workspace; }};
}

void Graph::train(const Batch& batch, std::span<const VariableView> variables, Workspace& workspace,
                  int threads, bool want_auc, BatchMetrics& metrics) const {
  const BatchRows rows = rows_of(impl_->program.negatives, batch, true, workspace.rows);
  Step(impl_->program, rows, variables, workspace, threads).train(want_auc, metrics);
}

bool Graph::finishes_custom() const {
  return impl_->program.weighs_custom || impl_->program.clip.given();
}

void Graph::finish_custom(const Batch& batch, std::span<const VariableView> variables) const {
  const Program& program = impl_->program;
  const std::vector<GradientView> gradients = gradients_of(program, batch, variables);
  if (program.weighs_custom) {
    const float weight = float(weight_of_batch(program.outputs[0], batch, 1));
    for (const GradientView gradient : gradients)
      for (float& element : gradient) element *= weight;
  }
  clip_gradients(program.clip, gradients);
}

void Graph::forward(const Batch& batch, std::span<const VariableView> variables,
                    Workspace& workspace, int threads, std::vector<std::vector<float>>& predictions,
                    BatchMetrics* metrics, std::vector<OutputMetrics>* slices,
                    std::vector<float>* grouped) const {
  const BatchRows rows = metrics == nullptr
                             ? BatchRows{batch}
                             : rows_of(impl_->program.negatives, batch, false, workspace.rows);
  Step(impl_->program, rows, variables, workspace, threads)
      .forward(predictions, metrics, slices, grouped);
  if (rows.group == 1) return;
  for (size_t o = 0; o < predictions.size(); ++o)
    keep_first_rows(rows.group, impl_->widths[o], predictions[o]);
}

}  // namespace downpour::model
