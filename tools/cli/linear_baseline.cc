#include "tools/cli/linear_baseline.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/runtime/report_text.h"
#include "shared/env/clock.h"
#include "shared/job/losses.h"
#include "shared/job/preset.h"
#include "shared/model/graph.h"
#include "tools/embedded/training.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kEpochs = 40;  // early stopping or the time limit usually ends it before

/// Returns the linear preset for a loss; null if there is none.
const char* linear_preset(const LossInfo& loss) {
  if (!loss.is_regression()) return "logistic_regression";
  return loss.loss == Loss::kSquared ? "linear_regression" : nullptr;
}

/// Returns the fields that the layers of a model read.
std::vector<std::string> read_fields(const Job& job) {
  std::vector<std::string> read;
  for (const FieldSpec& field : job.data.fields) {
    const auto reads = [&](const LayerSpec& layer) {
      return std::ranges::count(layer.inputs, field.name) > 0;
    };
    if (std::ranges::any_of(job.model.layers, reads)) read.push_back(field.name);
  }
  return read;
}

}  // namespace

std::optional<Job> linear_job(const Job& job) {
  if (job.model.outputs.size() != 1 || job.model.layers.empty() ||
      job.model.preset.ends_with("_regression"))
    return std::nullopt;
  const OutputSpec& output = job.model.outputs[0];
  const LossInfo* const loss = find_loss(output.loss);
  const char* const preset = loss == nullptr ? nullptr : linear_preset(*loss);
  const auto graph = model::Graph::build(job);
  if (preset == nullptr || !graph) return std::nullopt;
  Job linear;
  linear.name = job.name;
  linear.base_dir = job.base_dir;
  linear.seed = job.seed;
  linear.data = job.data;
  linear.eval.source = job.eval.source;
  linear.eval.holdout = job.eval.holdout;
  linear.eval.unknown_labels = job.eval.unknown_labels;
  linear.eval.early_stop.patience = job.eval.early_stop.patience;
  linear.cluster.threads = job.cluster.threads;
  linear.train.epochs = std::max(job.train.epochs, kEpochs);
  linear.train.batch_size = job.train.batch_size;
  linear.train.quarantine = job.train.quarantine;
  linear.model.preset = preset;
  PresetOptions& options = linear.model.options;
  options.inputs = read_fields(job);
  options.target = output.target;
  options.weights = output.weights;
  options.offset = output.offset;
  options.scale = output.scale;
  options.loss = output.loss;
  if (loss->target == TargetType::kClass) options.classes = (*graph)->output_widths()[0];
  options.own_optimizer = options.own_reduction = true;
  if (!complete_job(linear)) return std::nullopt;
  return linear;
}

std::optional<chief::LinearBaseline> linear_baseline(const Job& job, int64_t limit_ns,
                                                     const std::function<bool()>& stop) {
  const PosixClock clock;
  const int64_t end_ns = clock.now_ns() + limit_ns;
  const std::optional<Job> linear = linear_job(job);
  if (!linear) return std::nullopt;
  TrainingRequest request{.checked = &*linear, .threads = job.cluster.threads};
  const std::string metric = chief::loss_name(job.model.outputs[0]);
  std::optional<chief::LinearBaseline> best;
  request.on_progress = [&](const TrainingProgress& progress) {
    std::istringstream lines(progress.history);
    for (std::string line; std::getline(lines, line);) {
      const auto epoch = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!epoch.is_object() || !epoch.contains("eval") || !epoch["eval"].contains(metric))
        continue;
      const auto& value = epoch["eval"][metric];
      if (!value.is_number()) continue;
      const double loss = value.get<double>();
      const auto epochs = epoch.value("epoch", 0U);
      if (!best || loss < best->loss) best = chief::LinearBaseline{loss, epochs};
      best->epochs = epochs;
    }
    return clock.now_ns() < end_ns && !stop();
  };
  // A failure only leaves the comparison out.
  (void)train(request);
  return stop() ? std::nullopt : best;
}

}  // namespace downpour::tools
