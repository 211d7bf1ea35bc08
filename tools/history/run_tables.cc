#include "tools/history/run_tables.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/runtime/report_figures.h"
#include "chief/runtime/report_text.h"
#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/job/differences.h"

namespace downpour::tools {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

std::string time_text(int64_t unix_s) {
  if (unix_s == 0) return "-";
  const std::time_t time = unix_s;
  std::tm local{};
  char text[32];
  if (localtime_r(&time, &local) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local) == 0)
    return "-";
  return text;
}

std::string model_text(const Job& job) {
  if (!job.model.preset.empty()) return job.model.preset;
  if (job.model.is_custom()) return "custom";
  return str(job.model.layers.size(), " layer", job.model.layers.size() == 1 ? "" : "s");
}

std::string epochs_text(const RunOverview& run) {
  const size_t epochs = run.lines.size();
  return run.job.train.epochs == kEpochsMax ? str(epochs)
                                            : str(epochs, " of ", run.job.train.epochs);
}

std::string best_text(const RunOverview& run) {
  const chief::HistoryLine* const best = run.best();
  if (best == nullptr) return "-";
  const std::string shown = deciding_figure(run.job).shown;
  return str(shown, " ", chief::number(chief::figure_of(best->eval, shown).value_or(NAN)),
             " at epoch ", best->epoch);
}

std::string short_text(const std::string& value) {
  constexpr size_t kValueMax = 60;
  return value.size() <= kValueMax ? printable_line(value)
                                   : printable_line(value.substr(0, kValueMax)) + "...";
}

double total_seconds(const RunOverview& run) {
  double seconds = 0;
  for (const chief::HistoryLine& line : run.lines) seconds += line.seconds + line.eval_seconds;
  return seconds;
}

/// Returns the names of the figures of all lines, each once, in the order of the first line. Leaves
/// out the loss of jobs that all have it under another name, as a logloss or an rmse.
std::vector<std::string> figure_names(std::span<const RunOverview> runs,
                                      chief::Figures chief::HistoryLine::*figures) {
  const bool named = std::ranges::all_of(runs, [](const RunOverview& run) {
    return run.job.model.outputs.size() == 1 &&
           chief::loss_name(run.job.model.outputs[0]) != std::string_view("loss");
  });
  std::vector<std::string> names;
  for (const RunOverview& run : runs) {
    for (const chief::HistoryLine& line : run.lines) {
      for (const auto& [name, value] : line.*figures) {
        if (std::ranges::find(names, name) == names.end() && !(named && name == "loss"))
          names.push_back(name);
      }
    }
  }
  return names;
}

/// Returns the figures that a chart shows: those by which epochs are compared, and the metrics that
/// the jobs show.
std::vector<std::string> charted_names(std::span<const RunOverview> runs) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const RunOverview& run : runs) {
    add(deciding_figure(run.job).shown);
    for (const OutputSpec& output : run.job.model.outputs) {
      const std::string prefix = run.job.model.outputs.size() > 1 ? output.name + "/" : "";
      for (const std::string& name : chief::shown_metrics(run.job, output)) add(prefix + name);
    }
  }
  return names;
}

/// Calls `cell` for each run and returns the row.
std::vector<std::string> row_of(const std::string& title, std::span<const RunOverview> runs,
                                const std::function<std::string(const RunOverview&)>& cell) {
  std::vector<std::string> row = {title};
  for (const RunOverview& run : runs) row.push_back(cell(run));
  return row;
}

/// Returns the cell of the epoch that stands for a run.
std::string figure_cell(const RunOverview& run, chief::Figures chief::HistoryLine::*figures,
                        const std::string& name) {
  const chief::HistoryLine* const line = run.result();
  const auto value = line == nullptr ? std::nullopt : chief::figure_of(line->*figures, name);
  return value ? chief::number(*value) : "-";
}

Rows figure_rows(std::span<const RunOverview> runs) {
  Rows rows;
  rows.push_back(row_of("", runs, [](const auto& run) { return printable_line(run.folder); }));
  rows.push_back(row_of("state", runs, [](const auto& run) { return text_of(run.state); }));
  rows.push_back(row_of("epochs", runs, [](const auto& run) { return epochs_text(run); }));
  rows.push_back(row_of("steps", runs, [](const auto& run) {
    return run.lines.empty() ? "-" : grouped(run.lines.back().steps);
  }));
  rows.push_back(
      row_of("time", runs, [](const auto& run) { return chief::human_time(total_seconds(run)); }));
  rows.push_back(row_of("shown epoch", runs, [](const auto& run) {
    const chief::HistoryLine* const line = run.result();
    return line == nullptr ? "-" : str(line->epoch, run.kept_epoch == 0 ? " (last)" : " (best)");
  }));
  for (const auto& [title, figures] :
       {std::pair{"train ", &chief::HistoryLine::train}, {"eval ", &chief::HistoryLine::eval}}) {
    for (const std::string& name : figure_names(runs, figures))
      rows.push_back(row_of(title + printable_line(name), runs,
                            [&](const auto& run) { return figure_cell(run, figures, name); }));
  }
  return rows;
}

std::vector<KeyValues> differences_of(std::span<const RunOverview> runs) {
  std::vector<const Job*> jobs;
  for (const RunOverview& run : runs) jobs.push_back(&run.job);
  return differing_keys(jobs);
}

Json figures_json(const chief::Figures& figures) {
  Json json = Json::object();
  for (const auto& [name, value] : figures) json[name] = value;
  return json;
}

Json run_json(const RunOverview& run) {
  const chief::HistoryLine* const line = run.result();
  Json json = {{"run", run.folder},
               {"model", model_text(run.job)},
               {"saved_unix_s", run.saved_unix_s},
               {"epochs", run.lines.size()},
               {"epochs_wanted", run.job.train.epochs},
               {"state", text_of(run.state)},
               {"seconds", total_seconds(run)}};
  if (line == nullptr) return json;
  json["steps"] = run.lines.back().steps;
  json["epochs_trained"] = line->epoch;  // of the figures that follow
  json["train"] = figures_json(line->train);
  json["eval"] = figures_json(line->eval);
  return json;
}

/// Returns the series of one figure of one run; empty if the run does not have the figure.
ChartSeries series_of(const RunOverview& run, size_t color,
                      const std::function<std::optional<double>(const chief::HistoryLine&)>& of) {
  ChartSeries series{.color = color};
  for (const chief::HistoryLine& line : run.lines)
    if (const auto value = of(line)) series.points.push_back({double(line.epoch), *value});
  return series;
}

/// Returns the panel of a figure with the runs that show it. The training is dashed.
ChartPanel figure_panel(std::span<const RunOverview> runs, const std::string& name) {
  ChartPanel panel{.title = name};
  for (size_t r = 0; r < runs.size(); ++r) {
    const std::vector<std::string> names = charted_names(runs.subspan(r, 1));
    if (std::ranges::find(names, name) == names.end()) continue;
    for (const auto figures : {&chief::HistoryLine::train, &chief::HistoryLine::eval}) {
      ChartSeries series = series_of(runs[r], r, [&](const chief::HistoryLine& line) {
        return chief::figure_of(line.*figures, name);
      });
      series.dashed = figures == &chief::HistoryLine::train;
      if (!series.points.empty()) panel.series.push_back(std::move(series));
    }
  }
  return panel;
}

/// Returns a panel for each output of which a run has a reliability diagram: that of the run's
/// result. Points on the dashed diagonal are calibrated.
std::vector<ChartPanel> reliability_panels(std::span<const RunOverview> runs) {
  std::map<std::string, ChartPanel> panels;
  const bool several = std::ranges::any_of(
      runs, [](const RunOverview& run) { return run.job.model.outputs.size() > 1; });
  for (size_t r = 0; r < runs.size(); ++r) {
    const chief::HistoryLine* const line = runs[r].result();
    if (line == nullptr) continue;
    for (const chief::ReliabilityFigures& of : line->reliability) {
      ChartPanel& panel = panels[several ? of.output : ""];
      panel.title = several ? str(of.output, "/reliability") : "reliability";
      panel.x_title = "predicted probability";
      ChartSeries& series = panel.series.emplace_back();
      series.color = r;
      for (const ReliabilityBin& bin : of.bins)
        series.points.push_back({bin.predicted, bin.observed});
    }
  }
  std::vector<ChartPanel> drawn;
  for (auto& [output, panel] : panels) {
    double highest = 0;
    for (const ChartSeries& series : panel.series)
      for (const ChartPoint& point : series.points) highest = std::max({highest, point.x, point.y});
    panel.series.push_back(
        {.dashed = true, .neutral = true, .points = {{0, 0}, {highest, highest}}});
    drawn.push_back(std::move(panel));
  }
  return drawn;
}

}  // namespace

std::string runs_text(std::span<const RunOverview> runs) {
  Rows rows = {{"run", "model", "saved", "epochs", "best evaluation", "state"}};
  for (const RunOverview& run : runs) {
    rows.push_back({printable_line(run.folder), model_text(run.job), time_text(run.saved_unix_s),
                    epochs_text(run), best_text(run), text_of(run.state)});
  }
  return table_text(rows, /*left_columns=*/6);
}

Json runs_json(std::span<const RunOverview> runs) {
  Json json = Json::array();
  for (const RunOverview& run : runs) json.push_back(run_json(run));
  return json;
}

std::string compare_text(std::span<const RunOverview> runs) {
  std::string text;
  const std::vector<KeyValues> differences = differences_of(runs);
  if (differences.empty()) {
    text = "The jobs have the same keys, except their names and folders.\n";
  } else {
    Rows rows;
    rows.push_back(row_of("key", runs, [](const auto& run) { return printable_line(run.folder); }));
    for (const KeyValues& one : differences) {
      std::vector<std::string>& row = rows.emplace_back();
      row.push_back(printable_line(one.key));
      for (const std::string& value : one.values) row.push_back(short_text(value));
    }
    text = table_text(rows, /*left_columns=*/rows[0].size());
  }
  return text + "\n" + table_text(figure_rows(runs), /*left_columns=*/1);
}

Json compare_json(std::span<const RunOverview> runs) {
  Json keys = Json::object();
  for (const KeyValues& one : differences_of(runs)) keys[one.key] = one.values;
  return {{"runs", runs_json(runs)}, {"differing_keys", keys}};
}

Chart chart_of(std::span<const RunOverview> runs) {
  Chart chart{.x_title = "epoch"};
  for (size_t r = 0; r < runs.size(); ++r)
    chart.legend.push_back({.label = runs[r].folder, .color = r});
  chart.legend.push_back({.label = "evaluation", .neutral = true});
  chart.legend.push_back({.label = "training", .dashed = true, .neutral = true});
  for (const std::string& name : charted_names(runs))
    chart.panels.push_back(figure_panel(runs, name));
  ChartPanel& rates = chart.panels.emplace_back();
  rates.title = "learning rate";
  for (size_t r = 0; r < runs.size(); ++r) {
    rates.series.push_back(
        series_of(runs[r], r, [](const chief::HistoryLine& line) { return line.learning_rate; }));
  }
  for (ChartPanel& panel : reliability_panels(runs)) chart.panels.push_back(std::move(panel));
  return chart;
}

}  // namespace downpour::tools
