#include "tools/client/client_batch.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "worker/runtime/step_frames.h"

namespace downpour::tools {
namespace {

Error usage(std::string what, std::string hint) {
  return Error{ErrorCode::kUsage, std::move(what), {}, std::move(hint), {}};
}

std::vector<std::string> variable_names(const std::vector<TableSpec>& tables) {
  std::vector<std::string> names;
  for (const TableSpec& table : tables)
    for (const VariableSpec& variable : table.table_variables) names.push_back(variable.name);
  return names;
}

}  // namespace

ClientBatch::ClientBatch(const model::Graph& graph, worker::WorkerEffects::Compute&& compute,
                         uint64_t client)
    : records_(compute.batch->batch),
      where_(compute.batch->where),
      client_(client),
      training_(compute.batch->lease.purpose == wire::Purpose::kTrain),
      compute_(std::move(compute)) {
  const std::vector<uint64_t> sizes = worker::variable_floats(graph.tables(), records_);
  float* start = floats_.ensure(std::reduce(sizes.begin(), sizes.end()));
  std::vector<float*> starts;
  for (const uint64_t floats : sizes) {
    starts.push_back(values_.emplace_back(start, floats).data());
    start += floats;
  }
  worker::gather(graph.tables(), compute_.batch->plan, compute_.values, starts);
  compute_.values.clear();  // return the frames to their pool
}

Result<worker::Computed> ClientBatch::finish(const model::Graph& graph, model::Workspace& workspace,
                                             const BatchResults& results, bool skips_not_finite) {
  if (pushed_) return usage("the batch was pushed already", "push each batch once");
  if (!training_ && !results.gradients.empty()) {
    return usage("the batch is of an evaluation, and has gradients",
                 "push predictions without gradients if the batch is not for training");
  }
  worker::Computed computed{.slot = compute_.slot, .not_finite = {}};
  DP_TRY_VOID(set_metrics(graph, workspace, results, computed));
  if (training_) {
    const bool finishes = graph.finishes_custom();
    std::vector<std::vector<float>> gradients(values_.size());  // where those given are not used
    std::vector<model::VariableView> views;
    std::vector<const float*> starts;
    for (size_t v = 0; v < values_.size(); ++v) {
      const float* const given = v < results.gradients.size() ? results.gradients[v] : nullptr;
      const size_t floats = values_[v].size();
      if (given == nullptr) gradients[v].resize(floats);
      if (given != nullptr && finishes) gradients[v].assign(given, given + floats);
      views.push_back({values_[v].data(), gradients[v].data()});
      starts.push_back(given != nullptr && !finishes ? given : gradients[v].data());
    }
    if (finishes) graph.finish_custom(records_, views);
    const worker::PullPlan& plan = compute_.batch->plan;
    std::vector<worker::Frame> frames;
    for (const worker::PartMessage& message : plan.messages)
      frames.push_back(worker::make_frame(message.value_bytes));
    if (!worker::scatter(graph.tables(), plan, starts, frames)) {
      const std::vector<std::string> names = variable_names(graph.tables());
      for (size_t v = 0; v < names.size(); ++v) {
        if (!worker::all_finite(starts[v], values_[v].size()))
          computed.not_finite = str("the gradient of variable ", names[v], " is not finite");
      }
    }
    if (!computed.not_finite.empty() && !skips_not_finite) {
      return usage(computed.not_finite,
                   "lower the learning rate or check the records; train.on_nan = \"skip\" leaves "
                   "such batches out");
    }
    for (worker::Frame& frame : frames) computed.gradients.push_back(std::move(frame.bytes));
  }
  pushed_ = true;
  compute_ = {};
  return computed;
}

/// Computes the metrics from the predictions, as the job declares the outputs.
Result<void> ClientBatch::set_metrics(const model::Graph& graph, model::Workspace& workspace,
                                      const BatchResults& results, worker::Computed& computed) {
  const bool given = !results.predictions.empty();
  if (!given && records_.records > 0) {
    if (!training_) {
      return usage("the batch is of an evaluation, and has no predictions",
                   "push predictions, or remove eval.source and eval.holdout from the job");
    }
    if (compute_.step > 0) {
      return usage("a synchronous step needs the predictions",
                   "push predictions: the ps divide by the weight that comes with them");
    }
    if (!results.loss) return {};
    return usage("a loss needs the predictions",
                 "push predictions, too: the other metrics are "
                 "computed from them");
  }
  const std::vector<uint32_t> widths = graph.output_widths();
  std::vector<FloatColumn>& columns = records_.floats;
  const size_t inputs = graph.inputs().floats.size();
  columns.resize(inputs + widths.size());
  for (size_t o = 0; o < widths.size(); ++o) {
    const size_t floats = size_t{records_.records} * widths[o];
    const float* const values = given ? results.predictions[o] : nullptr;
    if (values == nullptr && floats > 0) {
      return usage(str("output `", graph.outputs()[o].name, "` has no predictions"),
                   "push the predictions of all outputs, or of none");
    }
    columns[inputs + o] = {widths[o], {values, values + floats}};
  }
  std::vector<model::VariableView> views;
  for (const std::span<float> values : values_) views.push_back({values.data(), nullptr});
  std::vector<std::vector<float>> predictions;
  graph.forward(records_, views, workspace, 1, predictions, &computed.metrics);
  if (results.loss) computed.metrics[0].sums.loss = *results.loss * computed.metrics[0].sums.weight;
  for (size_t o = 0; o < widths.size(); ++o) {
    if (std::isfinite(computed.metrics[o].sums.loss)) continue;
    computed.not_finite = str("the loss of output `", graph.outputs()[o].name, "` is not finite");
    return training_ ? Result<void>() : usage(computed.not_finite, "check the predictions");
  }
  return {};
}

}  // namespace downpour::tools
