#include "tools/history/run_overview.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "chief/core/run/selection.h"
#include "chief/runtime/history.h"
#include "chief/runtime/report_text.h"
#include "chief/runtime/run_setup.h"
#include "shared/base/enum_text.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/paths.h"
#include "shared/env/lock_probe.h"
#include "shared/job/job_file.h"
#include "shared/job/metric_names.h"
#include "shared/metrics/metrics.h"

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFileBytesMax = uint64_t{64} << 20;

Result<std::string> read_text(Storage& storage, const std::string& path) {
  DP_TRY(const Bytes bytes, storage.read_file(path, kFileBytesMax));
  const auto span = bytes.span();
  return std::string(span.begin(), span.end());
}

/// Returns true if the job has all the training that it asks for.
bool is_trained(const Job& job, const std::vector<chief::HistoryLine>& lines,
                const std::vector<chief::Evaluation>& evaluations) {
  const size_t whole =
      size_t(std::ranges::count(lines, false, [](const auto& line) { return line.partial; }));
  const bool by_steps =
      job.train.steps > 0 && !lines.empty() && lines.back().steps_counted >= job.train.steps;
  return whole >= job.train.epochs || by_steps || chief::stops_early(job, evaluations);
}

/// Returns how much worse a value is than a perfect one: the lower, the better.
double score(const DecidingFigure& figure, double value) {
  if (figure.has_best) return std::abs(value - figure.best);
  return figure.higher_is_better ? -value : value;
}

/// Returns the trained epochs of the checkpoint that the newest one names as the best; 0 if it
/// names none, or one that can't be read.
uint32_t best_epoch(Storage& storage, const std::string& run_dir,
                    const checkpoint::Manifest& newest) {
  if (newest.best == ViewId{}) return 0;
  const auto best = checkpoint::load_best(storage, run_dir, newest);
  return best ? uint32_t(best->epochs.size()) : 0;
}

/// Reads a run without a checkpoint.
Result<void> read_files(Storage& storage, const std::string& run_dir, RunOverview& overview) {
  if (auto job = chief::saved_job(storage, run_dir); job) {
    overview.job = std::move(*job);
  } else {
    DP_TRY(const std::string text, read_text(storage, checkpoint::job_path(run_dir)));
    auto parsed = job_from_toml(text, run_dir);
    if (!parsed) return std::move(parsed).error().with_context(checkpoint::job_path(run_dir));
    overview.job = std::move(*parsed);
  }
  const std::string path = chief::history_path(run_dir);
  DP_TRY(const bool recorded, storage.exists(path));
  if (!recorded) return {};
  DP_TRY(const std::string text, read_text(storage, path));
  DP_TRY(overview.lines, chief::parse_history(text, path));
  const chief::HistoryLine* const best = overview.best();
  if (overview.job.eval.keep_best && best != nullptr) overview.kept_epoch = best->epoch;
  overview.state = RunState::kStopped;
  return {};
}

}  // namespace

const char* text_of(RunState state) {
  return enum_text<RunState::kNoCheckpoint>(state,
                                            {"running", "finished", "stopped", "nothing saved"});
}

DecidingFigure deciding_figure(const Job& job) {
  const std::vector<OutputSpec>& outputs = job.model.outputs;
  const std::string& metric = job.eval.early_stop.metric;
  const auto named = [&](const OutputSpec& output, const std::string& name) {
    return outputs.size() > 1 ? str(output.name, "/", name) : name;
  };
  if (metric.empty() || metric == "loss") {
    return {.name = "loss", .shown = outputs.size() == 1 ? chief::loss_name(outputs[0]) : "loss"};
  }
  for (const OutputSpec& output : outputs) {
    const std::vector<std::string> known = supported_metrics(output.loss);
    if (std::ranges::find(known, metric) == known.end()) continue;
    const std::string name = named(output, metric);
    return {.name = name,
            .shown = name,
            .higher_is_better = compute_metric(metric, OutputMetrics{}).higher_is_better,
            .best = 1,
            .has_best = metric == "calibration"};
  }
  return {.name = metric, .shown = metric};
}

const chief::HistoryLine* RunOverview::best() const {
  const auto kept = std::ranges::find(lines, kept_epoch, &chief::HistoryLine::epoch);
  if (kept != lines.end()) return &*kept;
  const DecidingFigure figure = deciding_figure(job);
  const chief::HistoryLine* best = nullptr;
  double lowest = std::numeric_limits<double>::infinity();
  for (const chief::HistoryLine& line : lines) {
    const auto value = chief::figure_of(line.eval, figure.name);
    if (!value || score(figure, *value) >= lowest) continue;
    lowest = score(figure, *value);
    best = &line;
  }
  return best;
}

const chief::HistoryLine* RunOverview::result() const {
  if (kept_epoch > 0) return best();
  return lines.empty() ? nullptr : &lines.back();
}

bool is_run_folder(const std::string& folder) {
  std::error_code ignored;
  return fs::is_regular_file(checkpoint::run_path(folder), ignored) ||
         (fs::exists(chief::history_path(folder), ignored) &&
          fs::exists(checkpoint::job_path(folder), ignored));
}

Result<RunOverview> read_run_overview(Storage& storage, const std::string& folder) {
  std::error_code ignored;
  const std::string run_dir = fs::absolute(folder, ignored).lexically_normal().string();
  if (!is_run_folder(run_dir)) {
    const bool exists = fs::exists(run_dir, ignored);
    return Error{ErrorCode::kNoInput,
                 exists ? "this is not the folder of a run" : "the run folder does not exist",
                 folder, "downpour runs FOLDER lists the runs in a folder; the default is runs",
                 ""};
  }
  storage.guard(run_dir);
  RunOverview overview;
  overview.folder = folder;
  auto manifest = checkpoint::load_latest(storage, run_dir, nullptr);
  if (manifest) {
    DP_TRY(overview.job, job_from_toml(manifest->job, run_dir));
    std::vector<chief::EpochAccount> epochs;
    std::vector<chief::Evaluation> evaluations;
    chief::from_records(manifest->epochs, overview.job.model.outputs, epochs, evaluations);
    overview.lines = chief::history_lines(overview.job, epochs, evaluations);
    overview.saved_unix_s = manifest->created_unix_s;
    overview.kept_epoch = best_epoch(storage, run_dir, *manifest);
    overview.state = is_trained(overview.job, overview.lines, evaluations) ? RunState::kFinished
                                                                           : RunState::kStopped;
  } else {
    DP_TRY_VOID(read_files(storage, run_dir, overview));
  }
  if (is_locked(run_dir + "/lock")) overview.state = RunState::kRunning;
  return overview;
}

Result<std::vector<RunOverview>> read_run_overviews(Storage& storage, const std::string& folder,
                                                    std::vector<Error>& unreadable) {
  std::vector<std::string> folders;
  std::error_code error;
  if (is_run_folder(folder)) {
    folders.push_back(folder);
  } else {
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (is_run_folder(entry.path().string())) folders.push_back(entry.path().string());
  }
  if (folders.empty()) {
    return Error{
        ErrorCode::kNoInput,
        fs::exists(folder, error) ? "there is no run in this folder" : "the folder does not exist",
        folder, "name the folder that has the run folders: downpour runs FOLDER", ""};
  }
  std::ranges::sort(folders);
  std::vector<RunOverview> overviews;
  for (const std::string& run : folders) {
    auto overview = read_run_overview(storage, run);
    if (overview) {
      overviews.push_back(std::move(*overview));
    } else {
      unreadable.push_back(std::move(overview).error().with_context("run ", run));
    }
  }
  return overviews;
}

}  // namespace downpour::tools
