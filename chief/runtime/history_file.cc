#include "chief/runtime/history_file.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "chief/core/run/selection.h"
#include "chief/runtime/reliability_figures.h"
#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_json.h"
#include "chief/runtime/slice_figures.h"
#include "shared/base/number_text.h"
#include "shared/base/sizes.h"
#include "shared/metrics/metrics.h"
#include "shared/optim/schedule.h"

namespace downpour::chief {
namespace {

/// Returns the number of steps of a schedule in one step of the mode: in local training, the
/// batches of one replica. If these are a share of the epoch: of a share of mean length.
uint64_t schedule_steps(const TrainSpec& train, const wire::ShardCounts& counts) {
  if (!train.sync_every) return 1;
  if (!train.whole_epochs()) return *train.sync_every;
  return divide_up(counts.applied / std::max<uint64_t>(counts.batches, 1), train.batch_size);
}

/// Returns the learning rate of the last of `steps` steps of the mode until the end of the epoch.
std::optional<double> rate_after(const Job& job, const std::vector<Evaluation>& evaluations,
                                 const EpochAccount& account, uint64_t steps) {
  if (steps == 0) return std::nullopt;
  const uint64_t step = steps * schedule_steps(job.train, account.counts);
  // The nearest double of the decimal number in the job, which the float does not equal.
  const double rate = std::stod(number_text(job.optimizer.learning_rate));
  if (!job.optimizer.schedule.given()) return rate;
  const uint32_t reductions = plateau_after(job, evaluations, account.epoch).reductions;
  return rate * optim::schedule_factor(job.optimizer.schedule, step, reductions);
}

void add_figure(const std::string& name, double value, Figures& figures) {
  if (std::isfinite(value) && !figure_of(figures, name)) figures.emplace_back(name, value);
}

/// Adds the metrics of an output. `value_of` returns the value of a metric by its name.
template <typename F>
void add_output(const Job& job, size_t output, F&& value_of, Figures& figures) {
  const OutputSpec& spec = job.model.outputs[output];
  const std::string prefix = job.model.outputs.size() > 1 ? spec.name + "/" : "";
  for (const std::string& name : known_metrics(job, spec))
    add_figure(prefix + name, value_of(name), figures);
}

Figures trained_figures(const Job& job, const EpochAccount& account) {
  Figures figures;
  const std::vector<OutputMetrics> trained = trained_metrics(account);
  add_figure("loss", mean_loss(trained, job), figures);
  for (size_t o = 0; o < trained.size() && o < job.model.outputs.size(); ++o) {
    add_output(
        job, o, [&](const std::string& name) { return compute_metric(name, trained[o]).value; },
        figures);
  }
  return figures;
}

Figures evaluated_figures(const Job& job, const Evaluation& evaluation) {
  Figures figures;
  add_figure("loss", evaluation_loss(job, evaluation), figures);
  for (size_t o = 0; o < evaluation.outputs.size() && o < job.model.outputs.size(); ++o) {
    add_output(
        job, o, [&](const std::string& name) { return evaluated_metric(evaluation, o, name); },
        figures);
  }
  return figures;
}

Json figures_json(const Figures& figures) {
  Json json = Json::object();
  for (const auto& [name, value] : figures) json[name] = value;
  return json;
}

Figures figures_from(const Json& line, const char* key) {
  Figures figures;
  if (!line.contains(key)) return figures;
  for (const auto& [name, value] : line[key].items())
    if (value.is_number()) figures.emplace_back(name, value.get<double>());
  return figures;
}

HistoryLine line_from(const Json& json) {
  HistoryLine line{.epoch = json.at("epoch").get<uint32_t>()};
  line.partial = json.value("partial", false);
  line.steps = json.value("steps", uint64_t{0});
  line.steps_counted = json.value("steps_counted", line.steps);
  line.records = json.value("records", uint64_t{0});
  line.seconds = json.value("seconds", 0.0);
  if (json.contains("learning_rate") && json["learning_rate"].is_number())
    line.learning_rate = json["learning_rate"].get<double>();
  line.train = figures_from(json, "train");
  line.eval_records = json.value("eval_records", uint64_t{0});
  line.eval_seconds = json.value("eval_seconds", 0.0);
  line.eval = figures_from(json, "eval");
  if (json.contains("slices")) line.slices = slices_from(json["slices"]);
  if (json.contains("reliability")) line.reliability = reliability_from(json["reliability"]);
  return line;
}

Json json_of(const HistoryLine& line) {
  Json json = {{"epoch", line.epoch},
               {"steps", line.steps},
               {"records", line.records},
               {"seconds", line.seconds}};
  if (line.steps_counted != line.steps) json["steps_counted"] = line.steps_counted;
  if (line.partial) json["partial"] = true;
  if (line.learning_rate) json["learning_rate"] = *line.learning_rate;
  json["train"] = figures_json(line.train);
  if (line.eval.empty()) return json;
  json["eval_records"] = line.eval_records;
  json["eval_seconds"] = line.eval_seconds;
  json["eval"] = figures_json(line.eval);
  if (!line.slices.empty()) json["slices"] = slices_json(line.slices);
  if (!line.reliability.empty()) json["reliability"] = reliability_json(line.reliability);
  return json;
}

}  // namespace

std::optional<double> figure_of(const Figures& figures, std::string_view name) {
  for (const auto& [known, value] : figures)
    if (known == name) return value;
  return std::nullopt;
}

std::vector<HistoryLine> history_lines(const Job& job, const std::vector<EpochAccount>& epochs,
                                       const std::vector<Evaluation>& evaluations) {
  std::vector<HistoryLine> lines;
  uint64_t steps = 0, counted = 0;
  for (const EpochAccount& account : epochs) {
    steps += account.counts.batches;
    HistoryLine& line = lines.emplace_back();
    line.epoch = account.epoch + 1;
    line.partial = account.is_partial();
    line.steps = steps;
    // Partitions whose epochs had replicas count on from those steps.
    const bool by_version = job.train.replicas || counted != steps - account.counts.batches;
    counted = account.steps_counted.value_or(by_version ? account.version : steps);
    line.steps_counted = counted;
    line.records = account.counts.applied;
    line.seconds = double(account.wall_ns) / double(kSecond);
    line.learning_rate = account.learning_rate;
    if (!line.learning_rate)
      line.learning_rate = rate_after(job, evaluations, account, line.steps_counted);
    line.train = trained_figures(job, account);
    for (const Evaluation& evaluation : evaluations) {
      if (evaluation.epochs_trained != line.epoch) continue;
      line.eval_records = evaluation.counts.applied;
      line.eval_seconds = double(evaluation.wall_ns) / double(kSecond);
      line.eval = evaluated_figures(job, evaluation);
      line.slices = slice_figures(job, evaluation);
      line.reliability = reliability_figures(job, evaluation);
    }
  }
  return lines;
}

std::string history_path(const std::string& run_dir) { return run_dir + "/history.jsonl"; }

std::string history_text(const std::vector<HistoryLine>& lines) {
  std::string text;
  for (const HistoryLine& line : lines) text += json_line(json_of(line)) + "\n";
  return text;
}

Result<std::vector<HistoryLine>> parse_history(std::string_view text, const std::string& path) {
  std::map<uint32_t, HistoryLine> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    try {
      HistoryLine parsed = line_from(Json::parse(line));
      lines[parsed.epoch] = std::move(parsed);
    } catch (const Json::exception& error) {
      return Error{ErrorCode::kBadData, str("not a line of a run's history: ", error.what()),
                   str(path, ":", number),
                   "remove the file: resuming the run writes it again from the newest checkpoint",
                   ""};
    }
  }
  std::vector<HistoryLine> sorted;
  for (auto& [epoch, line] : lines) sorted.push_back(std::move(line));
  return sorted;
}

std::string history_warning(const Error& error) {
  return str("history.jsonl can't be written: ", error.what, " (", error.where, ")");
}

Result<std::string> restore_history(Storage& storage, const std::string& run_dir,
                                    const ChiefConfig& config) {
  DP_TRY_VOID(storage.exists(history_path(run_dir)));  // rejects a link
  if (!config.resume || config.resume->epochs.empty()) return std::string();
  const auto written =
      write_history(storage, run_dir,
                    history_lines(config.job, config.resume->epochs, config.resume->evaluations));
  return written ? std::string() : history_warning(written.error());
}

Result<void> write_history(Storage& storage, const std::string& run_dir,
                           const std::vector<HistoryLine>& lines) {
  return storage.write_file_atomic(history_path(run_dir), as_bytes(history_text(lines)));
}

}  // namespace downpour::chief
