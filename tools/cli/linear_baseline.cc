#include "tools/cli/linear_baseline.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/runtime/report_text.h"
#include "shared/env/clock.h"
#include "tools/embedded/training.h"

namespace downpour::tools {
namespace {

/// Returns the linear preset for the losses of a model; null if there is none.
const char* linear_preset(const ModelSpec& model) {
  if (model.outputs.size() != 1 || model.preset.ends_with("_regression")) return nullptr;
  const std::string& loss = model.outputs[0].loss;
  return loss == "logistic"  ? "logistic_regression"
         : loss == "squared" ? "linear_regression"
                             : nullptr;
}

/// Returns whether an override also fits the linear model.
bool applies(const Override& override) {
  const std::string& key = override.key;
  const auto within = [&](const char* table) { return key.starts_with(table); };
  return key == "seed" || key == "model.target" || key == "model.weights" ||
         key == "model.inputs" || within("data.") || within("eval.source") ||
         within("eval.holdout") || key == "eval.unknown_labels";
}

}  // namespace

std::optional<chief::LinearBaseline> linear_baseline(const std::string& data, const Job& job,
                                                     std::span<const Override> overrides,
                                                     int64_t limit_ns,
                                                     const std::function<bool()>& stop) {
  const char* const preset = linear_preset(job.model);
  if (preset == nullptr) return std::nullopt;
  TrainingRequest request{.job = "", .data = data, .overrides = {}, .threads = job.cluster.threads};
  std::error_code error;
  request.folder = std::filesystem::current_path(error).string();
  std::ranges::copy_if(overrides, std::back_inserter(request.overrides), applies);
  request.overrides.push_back({"model.preset", preset, "the linear model"});

  const std::string metric = chief::loss_name(job.model.outputs[0]);
  const PosixClock clock;
  const int64_t end_ns = clock.now_ns() + limit_ns;
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
