#include "tools/sim/oracle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "shared/base/hash.h"
#include "shared/model/graph.h"
#include "worker/runtime/shard_read.h"

namespace downpour::sim {
namespace {

constexpr double kTargetMin = 1 << 27;  // float32 rounds predictions below 4 away from it
constexpr double kTolerance = 2e-5;     // relative; covers a few hundred steps in float32

Error wrong(std::string what) {
  return Error{ErrorCode::kConfig, str("the simulator can't check this job's values: ", what)};
}

Result<worker::ReaderOptions> reader_options(const chief::RunPlan& plan,
                                             const model::Graph& graph) {
  const Job& job = plan.job;
  worker::ReaderOptions options;
  options.tables = graph.tables();
  options.train = data::make_read_plan(job, graph.inputs(), graph.output_widths(), job.data.source,
                                       plan.train_files, 0);
  options.train_shards = data::map_shards(
      job, plan.train_files, plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams));
  if (job.eval.holdout > 0) return wrong("it holds records out for evaluation");
  if (!plan.eval_files.empty()) {
    options.eval = data::for_evaluation(*options.train, job.eval.source, plan.eval_files);
    options.eval_ranges = plan::cut_shards(
        plan.eval_files, plan::eval_shard_bytes(data::joining_of(job.data, {}), plan.shard_bytes));
  }
  return options;
}

/// Maps each layer to the output to which its values are added.
class LayerOutputs {
 public:
  static Result<LayerOutputs> make(const Job& job) {
    LayerOutputs outputs;
    for (size_t o = 0; o < job.model.outputs.size(); ++o) {
      const OutputSpec& output = job.model.outputs[o];
      if (output.loss != "squared" || !output.weights.empty() || output.weight != 1.0F)
        return wrong("an output has another loss than squared");
      DP_TRY_VOID(outputs.add(job, output.input, o));
    }
    return outputs;
  }
  /// Returns the layer that declares a variable, which is named "LAYER/...".
  const LayerSpec* layer(const Job& job, const std::string& variable) const {
    const std::string name = variable.substr(0, variable.find('/'));
    for (const LayerSpec& layer : job.model.layers)
      if (layer.name == name) return &layer;
    return nullptr;
  }
  size_t output(const std::string& layer) const { return outputs_.at(layer); }

 private:
  Result<void> add(const Job& job, const std::string& name, size_t output) {
    const LayerSpec* const layer = this->layer(job, name);
    if (layer == nullptr) return {};  // `name` is a field
    if (!outputs_.emplace(name, output).second)
      return wrong(str("layer ", name, " contributes to more than one output, or twice to one"));
    if (layer->type == "add") {
      for (const std::string& input : layer->inputs) DP_TRY_VOID(add(job, input, output));
      return {};
    }
    if (layer->rows_of() != nullptr) return wrong(str("layer ", name, " shares its rows"));
    if (layer->type == "linear" || (layer->type == "embedding" && layer->pool == "sum")) return {};
    return wrong(str("layer ", name, " has type ", layer->type));
  }
  std::map<std::string, size_t> outputs_;
};

/// The gradients of one batch at the outputs, and its sums for metrics.
struct Losses {
  std::vector<std::vector<double>> gradients;  // per output: [records, width]
  std::vector<OutputSums> sums;
};

Result<Losses> losses_of(const Job& job, const model::Graph& graph, const Batch& batch) {
  Losses losses;
  const InputLayout& layout = graph.inputs();
  for (size_t o = 0; o < job.model.outputs.size(); ++o) {
    const auto field = std::find_if(
        layout.floats.begin(), layout.floats.end(),
        [&](const FloatInput& input) { return input.field == job.model.outputs[o].target; });
    const std::vector<float>& targets = batch.floats[size_t(field - layout.floats.begin())].values;
    const size_t width = graph.output_widths()[o];
    OutputSums sums{.weight = double(batch.records)};
    std::vector<double>& gradient = losses.gradients.emplace_back();
    for (size_t i = 0; i < targets.size(); ++i) {
      const double target = double(targets[i]);
      if (target < kTargetMin)
        return wrong(str("a target of ", target,
                         " is less than 2^27, the smallest target that the simulator can check"));
      gradient.push_back(-2 * target / double(width));
      sums.loss += target * target / double(width);
      sums.label += target / double(width);
    }
    sums.squared_error = sums.loss;
    losses.sums.push_back(sums);
  }
  return losses;
}

/// Computes the gradients of all rows of a batch.
class GradientSum {
 public:
  using Rows = std::map<std::pair<TableId, uint64_t>, std::vector<double>>;
  GradientSum(const Job& job, const model::Graph& graph, const LayerOutputs& outputs,
              const Batch& batch, const Losses& losses)
      : job_(job), graph_(graph), outputs_(outputs), batch_(batch), losses_(losses) {}

  Result<Rows> run() {
    const std::vector<TableSpec>& tables = graph_.tables();
    for (size_t t = 0; t < tables.size(); ++t) {
      size_t at = 0, floats = 0;
      for (size_t m = 0; m < tables[t].table_variables.size(); ++m)
        floats += tables[t].row_floats(m, 0);
      for (size_t m = 0; m < tables[t].table_variables.size(); ++m) {
        const VariableSpec& variable = tables[t].table_variables[m];
        const LayerSpec* const layer = outputs_.layer(job_, variable.name);
        if (layer == nullptr) return wrong(str("no layer has variable ", variable.name));
        width_ = graph_.output_widths()[outputs_.output(layer->name)];
        gradient_ = &losses_.gradients[outputs_.output(layer->name)];
        if (tables[t].kind == TableKind::kEmbedding) {
          add_rows(TableId(uint32_t(t)), *layer, at, floats);
        } else {
          if (tables[t].block_count() != 1) return wrong("a dense variable of several blocks");
          add_dense(TableId(uint32_t(t)), variable, *layer, floats);
        }
        at += tables[t].row_floats(m, 0);
      }
    }
    return std::move(rows_);
  }

 private:
  void add_rows(TableId table, const LayerSpec& layer, size_t at, size_t floats) {
    const InputLayout& layout = graph_.inputs();
    for (size_t b = 0; b < layout.bags.size(); ++b) {
      const BagInput& input = layout.bags[b];
      const bool of_layer =
          std::find(layer.inputs.begin(), layer.inputs.end(), input.field) != layer.inputs.end();
      if (!of_layer || layout.tables[input.table_index] != table) continue;
      const BagColumn& bag = batch_.bags[b];
      const std::vector<uint64_t>& keys = batch_.tables[bag.table_index].keys;
      for (uint32_t r = 0; r < batch_.records; ++r) {
        const uint32_t begin = bag.offsets.empty() ? r : bag.offsets[r];
        const uint32_t end = bag.offsets.empty() ? r + 1 : bag.offsets[r + 1];
        for (uint32_t k = begin; k < end; ++k) {
          std::vector<double>& sum = row({table, keys[bag.keys[k]]}, floats);
          const double value = bag.values.empty() ? 1.0 : double(bag.values[k]);
          for (size_t j = 0; j < width_; ++j) sum[at + j] += value * (*gradient_)[r * width_ + j];
        }
      }
    }
  }
  void add_dense(TableId table, const VariableSpec& variable, const LayerSpec& layer,
                 size_t floats) {
    std::vector<double>& sum = row({table, 0}, floats);
    if (variable.name.ends_with("/bias")) {
      for (size_t i = 0; i < gradient_->size(); ++i) sum[i % width_] += (*gradient_)[i];
      return;
    }
    size_t at = 0;  // index of the weight matrix's row; the matrix has shape [inputs, width]
    const InputLayout& layout = graph_.inputs();
    for (const std::string& name : layer.inputs) {
      for (size_t f = 0; f < layout.floats.size(); ++f) {
        const FloatInput& input = layout.floats[f];
        if (input.field != name) continue;
        for (uint32_t r = 0; r < batch_.records; ++r) {
          for (size_t i = 0; i < input.width; ++i) {
            const double x = double(batch_.floats[f].values[r * input.width + i]);
            for (size_t j = 0; j < width_; ++j)
              sum[(at + i) * width_ + j] += x * (*gradient_)[r * width_ + j];
          }
        }
        at += input.width;
      }
    }
  }
  std::vector<double>& row(std::pair<TableId, uint64_t> at, size_t floats) {
    std::vector<double>& sum = rows_[at];
    sum.resize(floats);
    return sum;
  }

  const Job& job_;
  const model::Graph& graph_;
  const LayerOutputs& outputs_;
  const Batch& batch_;
  const Losses& losses_;
  size_t width_ = 0;
  const std::vector<double>* gradient_ = nullptr;
  Rows rows_;
};

/// Calls visit(batch) for each batch of a shard. Returns whether the shard is the last one of a
/// stream of unknown length.
template <typename Visit>
Result<bool> read_shard(const worker::ReaderOptions& options, const wire::Lease& lease,
                        Visit&& visit) {
  worker::ShardRead shard_read(options, {.lease = lease, .first_batch = 0, .shard_read = 1});
  for (;;) {
    worker::ReadItem item = shard_read.next(std::make_shared<worker::PreparedBatch>(), nullptr);
    if (item.failure) return item.failure->error;
    if (item.end) return item.end->counts.end_offset == plan::kOpenEnd;
    DP_TRY_VOID(visit(item.batch->batch));
  }
}

/// `locals`: the optimizers of replicas that train alone; null in other modes.
Result<std::vector<Oracle::TableVariable>> table_variables_of(const TableSpec& table,
                                                              const OptimizerSpec* locals) {
  std::vector<Oracle::TableVariable> table_variables;
  for (size_t m = 0; m < table.table_variables.size(); ++m) {
    const VariableSpec& variable = table.table_variables[m];
    const OptimizerType type = variable.optimizer.type;
    const OptimizerType second =
        locals != nullptr ? OptimizerType::kMomentum : OptimizerType::kAdam;
    const bool row_wise = type == OptimizerType::kRowwiseAdagrad && locals == nullptr;
    const bool known = (type == OptimizerType::kSgd || type == second || row_wise) &&
                       (locals == nullptr ||
                        (locals[m].type == OptimizerType::kSgd && !locals[m].schedule.given()));
    if (!known) return wrong(str("variable ", variable.name, " has another optimizer"));
    if (variable.optimizer.averages())
      return wrong(str("variable ", variable.name, " has averages"));
    if (variable.init.type != InitType::kZero && variable.init.scale != 0)
      return wrong(str("variable ", variable.name, " does not begin at 0"));
    table_variables.push_back(
        {.optimizer = variable.optimizer,
         .local_rate = locals != nullptr ? double(locals[m].learning_rate) : 1,
         .dim = table.row_floats(m, 0),
         .slots = type == OptimizerType::kAdam       ? 2U
                  : type == OptimizerType::kMomentum ? 1U
                                                     : 0U,
         .row_slots = row_wise ? 1U : 0U});
  }
  return table_variables;
}

/// Returns the batches of every step of a job. `replica_of` returns the replica of a shard. In each
/// epoch, step k has the k-th batch of every replica that has one. After `limit` steps (0: no
/// limit) no replica begins another shard.
std::vector<std::vector<wire::StepPart>> steps_of_job(
    const std::vector<Oracle::Batch>& batches, uint32_t epochs, uint32_t replicas, uint64_t limit,
    const std::function<uint32_t(ShardId)>& replica_of) {
  std::vector<std::vector<wire::StepPart>> steps;
  for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<std::vector<BatchId>> left(replicas);  // the next batch is the last one
    for (const Oracle::Batch& batch : batches)
      if (batch.id.epoch == epoch) left[replica_of(batch.id.shard_id())].push_back(batch.id);
    for (std::vector<BatchId>& ids : left) std::ranges::reverse(ids);
    while (true) {
      const bool closed = limit > 0 && steps.size() >= limit;
      std::vector<wire::StepPart> step;
      for (uint32_t replica = 0; replica < replicas; ++replica) {
        std::vector<BatchId>& ids = left[replica];
        if (ids.empty() || (closed && ids.back().batch == 0)) continue;
        step.push_back({replica, ids.back()});
        ids.pop_back();
      }
      if (step.empty()) break;
      steps.push_back(std::move(step));
    }
    if (limit > 0 && steps.size() >= limit) break;
  }
  return steps;
}

}  // namespace

bool agrees(float stored, double expected) {
  return std::abs(double(stored) - expected) <= kTolerance * std::abs(expected);
}

Result<Oracle> Oracle::make(const chief::RunPlan& plan) {
  const Job& job = plan.job;
  if (job.train.reduction != "sum") return wrong("gradients are means over a batch");
  const auto bits = uint32_t(__builtin_ctz(job.partitions));
  DP_TRY(const auto graph, model::Graph::build(job));
  DP_TRY(const worker::ReaderOptions options, reader_options(plan, *graph));
  DP_TRY(const LayerOutputs outputs, LayerOutputs::make(job));
  Oracle oracle;
  oracle.epochs_ = job.train.epochs;
  oracle.averages_ = graph->local().has_value();
  oracle.of_touched_ = job.train.average == "touched";
  size_t first = 0;  // variable of the table
  for (const TableSpec& table : graph->tables()) {
    const OptimizerSpec* const locals =
        oracle.averages_ ? &graph->local()->optimizers[first] : nullptr;
    first += table.table_variables.size();
    DP_TRY(std::vector<TableVariable> table_variables, table_variables_of(table, locals));
    for (const TableVariable& m : table_variables)
      oracle.order_matters_ =
          oracle.order_matters_ || (m.slots + m.row_slots > 0 && !oracle.averages_);
    oracle.table_variables_.push_back(std::move(table_variables));
    oracle.names_.push_back(table.name);
  }
  std::map<std::pair<TableId, uint64_t>, Row> rows;
  const auto add = [&](const downpour::Batch& batch) -> Result<void> {
    const auto number = uint32_t(oracle.batches_.size());
    DP_TRY(Losses losses, losses_of(job, *graph, batch));
    DP_TRY(GradientSum::Rows gradients, GradientSum(job, *graph, outputs, batch, losses).run());
    for (auto& [at, gradient] : gradients) {
      Row& row = rows[at];
      row.table = at.first;
      row.key = at.second;
      row.partition =
          partition_of(row_hash(row.table, row.key, graph->tables()[raw(row.table)].group), bits);
      row.uses.push_back({number, std::move(gradient)});
    }
    oracle.batches_.push_back({.id = batch.id, .records = batch.records, .sums = losses.sums});
    oracle.numbers_.back().back().push_back(number);
    if (batch.id.epoch == 0) oracle.records_ += batch.records;
    return {};
  };
  const uint32_t shards = options.train_shards.count();
  for (uint32_t epoch = 0; epoch < oracle.epochs_; ++epoch) {
    oracle.numbers_.emplace_back();
    bool ended = false;  // a stream of unknown length has ended
    for (uint32_t place = 0; place < shards && !ended; ++place) {
      oracle.numbers_.back().emplace_back();
      DP_TRY(ended, read_shard(options, {.shard = {epoch, place}}, add));
    }
  }
  const auto replica_of = [&](ShardId shard) {
    return plan.streams.shared() ? shard.shard % uint32_t(*job.train.replicas)
                                 : options.train_shards.at(shard.epoch, shard.shard).front().stream;
  };
  if (job.train.replicas && job.train.backups == 0) oracle.find_steps(job.train, replica_of);
  oracle.by_partition_.resize(job.partitions);
  for (auto& [at, row] : rows) {
    auto& partition = oracle.by_partition_[raw(row.partition)];
    for (const Use& use : row.uses)
      oracle.batches_[use.batch].rows.emplace_back(row.partition, uint32_t(partition.size()));
    partition.push_back(std::move(row));
  }
  if (job.clip.given()) {
    if (oracle.steps_.empty() || oracle.averages_ || oracle.order_matters_ || job.clip.value > 0 ||
        job.clip.norm > 0)
      return wrong("its gradients are limited in another way than by the norm of a step");
    oracle.limit_norms(double(job.clip.global_norm));
  }
  for (uint32_t place = 0; place < options.eval_ranges.size(); ++place) {
    const auto count = [&](const downpour::Batch& batch) -> Result<void> {
      DP_TRY(const Losses losses, losses_of(job, *graph, batch));
      oracle.evaluation_.resize(losses.sums.size());
      for (size_t o = 0; o < losses.sums.size(); ++o) oracle.evaluation_[o] += losses.sums[o];
      return {};
    };
    DP_TRY_VOID(read_shard(options, {.purpose = wire::Purpose::kEval, .shard = {0, place}}, count));
  }
  return oracle;
}

void Oracle::find_steps(const TrainSpec& train,
                        const std::function<uint32_t(ShardId)>& replica_of) {
  steps_ = steps_of_job(batches_, epochs_, uint32_t(*train.replicas), train.steps, replica_of);
  for (size_t s = 0; s < steps_.size(); ++s) {
    double records = 0;
    for (const wire::StepPart& part : steps_[s]) records += batches_[number_of(part.batch)].records;
    for (const wire::StepPart& part : steps_[s]) batches_[number_of(part.batch)].step = s + 1;
    records_of_step_.push_back(records);
  }
}

/// Computes the factors that limit the norm of each step's gradients.
void Oracle::limit_norms(double most) {
  std::vector<double> squares(steps_.size());
  for (const std::vector<Row>& rows : by_partition_) {
    for (const Row& row : rows) {
      std::map<uint64_t, std::vector<double>> sums;  // by step
      for (const Use& use : row.uses) {
        std::vector<double>& sum = sums[batches_[use.batch].step];
        sum.resize(use.gradient.size());
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += use.gradient[i];
      }
      for (const auto& [step, sum] : sums)
        for (const double g : sum)
          if (step > 0) squares[step - 1] += g * g;
    }
  }
  for (const double square : squares) factors_.push_back(std::min(1.0, most / std::sqrt(square)));
}

uint32_t Oracle::number_of(BatchId batch) const {
  if (batch.epoch >= numbers_.size() || batch.shard >= numbers_[batch.epoch].size())
    return UINT32_MAX;
  const std::vector<uint32_t>& numbers = numbers_[batch.epoch][batch.shard];
  return batch.batch < numbers.size() ? numbers[batch.batch] : UINT32_MAX;
}

bool Oracle::state(const Row& row, const StepOf& step_of, std::vector<double>& out) const {
  struct Step {
    uint64_t step;
    const Use* use;
  };
  std::vector<Step> steps;
  steps.reserve(row.uses.size());
  for (const Use& use : row.uses) {
    if (const uint64_t step = step_of(use.batch); step > 0)
      steps.push_back({averages_ ? batches_[use.batch].step : step, &use});
  }
  if (order_matters_ || averages_) {
    std::sort(steps.begin(), steps.end(),
              [](const Step& a, const Step& b) { return a.step < b.step; });
  }
  size_t floats = 0;
  const std::vector<TableVariable>& variables = table_variables(row.table);
  for (const TableVariable& m : variables) floats += m.stored_floats();
  out.assign(floats, 0.0);
  std::vector<double> sums;
  size_t stored = 0, gradient = 0;
  for (const TableVariable& m : variables) {
    double rate = rate_of(m, 1);
    for (size_t s = 0, end = 0; s < steps.size(); s = end) {
      if (order_matters_) rate = rate_of(m, steps[s].step);
      // A mean has the changes of all replicas that have touched the row.
      end = s + 1;
      while (averages_ && end < steps.size() && steps[end].step == steps[s].step) ++end;
      double records = 0;  // what the changes are divided by
      if (averages_ && !of_touched_ && steps[s].step > 0)
        records = records_of_step_[steps[s].step - 1];
      for (size_t use = s; records == 0 && use < end; ++use)
        records += batches_[steps[use].use->batch].records;
      sums.assign(m.dim, 0.0);
      for (size_t i = 0; i < m.dim; ++i) {
        for (size_t use = s; use < end; ++use) {
          const Use& of = *steps[use].use;
          const Batch& batch = batches_[of.batch];
          sums[i] += of.gradient[gradient + i] *
                     (averages_ ? m.local_rate * batch.records / records : 1.0) *
                     (factors_.empty() || batch.step == 0 ? 1.0 : factors_[batch.step - 1]);
        }
      }
      if (m.row_slots > 0) {
        apply_row_wise(m, rate, sums, &out[stored]);
        continue;
      }
      for (size_t i = 0; i < m.dim; ++i) apply(m, rate, sums[i], &out[stored], i);
    }
    stored += m.stored_floats();
    gradient += m.dim;
  }
  return !steps.empty();
}

}  // namespace downpour::sim
