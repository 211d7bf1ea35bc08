#include "tools/embedded/training.h"

#include <atomic>
#include <csignal>
#include <utility>

#include "chief/runtime/classes.h"
#include "chief/runtime/history_file.h"
#include "chief/runtime/job_setup.h"
#include "chief/runtime/learn.h"
#include "chief/runtime/run_setup.h"
#include "chief/runtime/slices.h"
#include "shared/env/clock.h"
#include "shared/env/process.h"
#include "tools/embedded/roles.h"

namespace downpour::tools {
namespace {

constexpr int64_t kProgressNs = 50 * kMillisecond;
constexpr const char* kRunFolder = "/memory/run";

struct ChosenJob {
  Job job;
  std::string reason;
  std::vector<std::string> warnings;
};

/// Chooses or reads the job, and completes it from the data.
Result<ChosenJob> complete_job_of(const TrainingRequest& request) {
  std::vector<Override> overrides = request.overrides;
  const auto set = [&](const char* key, const std::string& value) {
    overrides.push_back({key, value, "the caller"});
  };
  set("run_dir", str("'", kRunFolder, "'"));
  ChosenJob out;
  JobSource source{request.folder + "/job.toml", request.job};
  if (request.job.empty()) {
    DP_TRY(chief::ChosenJob chosen, chief::choose_job(std::span(&request.data, 1), overrides,
                                                      /*fresh=*/true, request.folder));
    source.text = job_to_toml(chosen.job);
    out.reason = std::move(chosen.reason);
    out.warnings = std::move(chosen.warnings);
  } else if (!request.data.empty()) {
    set("data.source", str("'", request.data, "'"));
    // The form of the job's own data does not apply.
    set("data.format", "auto");
    set("data.columns", "[]");
    set("data.header", "false");
    set("data.delimiter", "''");
  }
  DP_TRY(LoadedJob loaded, load_job(source, overrides, chief::process_environment()));
  std::string sniffed;
  if (auto done = chief::complete_from_data(loaded.job, sniffed, /*fresh=*/true); !done)
    return located(std::move(done).error(), loaded.origins);
  out.job = std::move(loaded.job);
  return out;
}

/// Returns the complete job, for one process.
Result<ChosenJob> job_of(const TrainingRequest& request) {
  ChosenJob out;
  if (request.checked != nullptr) {
    out.job = *request.checked;
    out.job.run_dir = kRunFolder;
  } else {
    DP_TRY(out, complete_job_of(request));
  }
  out.job.cluster.ps = out.job.cluster.workers = 1;
  out.job.cluster.ps_in_workers = false;
  out.job.cluster.input_workers = 0;
  out.job.cluster.ps_threads = 1;
  out.job.cluster.threads = request.threads > 0 ? request.threads : allowed_cpus();
  return out;
}

/// Reports progress from the turns of the reactor.
class Reporter {
 public:
  Reporter(const TrainingRequest& request, Storage& storage, const Clock& clock)
      : request_(request), storage_(storage), clock_(clock) {}

  void note(const chief::ProgressSnapshot& progress) { progress_ = progress; }
  void turn() {
    if (request_.on_progress == nullptr || stop_signal != 0) return;
    const int64_t now = clock_.now_ns();
    if (now < next_ns_) return;
    next_ns_ = now + kProgressNs;
    if (!request_.on_progress({progress_, new_history()})) stop_signal = SIGINT;
  }
  /// Reports the last lines of the history.
  void finish() {
    if (request_.on_progress == nullptr || stop_signal != 0) return;
    (void)request_.on_progress({progress_, new_history()});
  }

  std::atomic<int> stop_signal{0};

 private:
  std::string new_history() {
    const auto file = storage_.read_file(chief::history_path(kRunFolder), uint64_t{1} << 30);
    if (!file || file->size() <= reported_) return "";
    const std::string_view all(reinterpret_cast<const char*>(file->data()), file->size());
    std::string fresh(all.substr(reported_));
    reported_ = all.size();
    return fresh;
  }

  const TrainingRequest& request_;
  Storage& storage_;
  const Clock& clock_;
  chief::ProgressSnapshot progress_;
  int64_t next_ns_ = 0;
  size_t reported_ = 0;  // bytes of the history
};

/// Runs the roles of a job until it ends. Returns whether the caller has ended it.
Result<bool> run(const TrainingRequest& request, const chief::RunPlan& plan, Storage& storage,
                 std::vector<std::string>& warnings) {
  DP_TRY(chief::ChiefConfig config, chief::open_run(storage, plan, {.fresh = true}, &warnings));
  const PosixClock clock;
  Reporter reporter(request, storage, clock);
  chief::ChiefOptions options;
  options.keeps_history = true;
  options.stop_signal = &reporter.stop_signal;
  options.watch = [&]() -> Result<void> {
    reporter.turn();
    return {};
  };
  options.on_progress = [&](const chief::ProgressSnapshot& seen) { reporter.note(seen); };
  DP_TRY(const chief::Finish finish,
         run_roles(storage, plan, std::move(config), std::move(options), plan.job.cluster.threads));
  reporter.finish();
  const bool stopped = reporter.stop_signal != 0;
  if (finish.error && !stopped) return *finish.error;
  return stopped;
}

}  // namespace

Result<Trained> train(const TrainingRequest& request) {
  DP_TRY(ChosenJob chosen, job_of(request));
  DP_TRY(chief::RunPlan plan, chief::plan_run(chosen.job, wire::Purpose::kTrain));
  std::vector<std::string> warnings = std::move(chosen.warnings);
  if (request.checked == nullptr) {
    DP_TRY(std::string note, chief::check_labels(chosen.job));
    if (!note.empty()) warnings.push_back(std::move(note));
  }
  DP_TRY_VOID(chief::learn_statistics(plan, /*fresh=*/true));
  DP_TRY_VOID(chief::check_evaluation(plan));
  DP_TRY_VOID(chief::choose_slices(plan, wire::Purpose::kTrain));
  MemoryStorage storage;
  if (const std::string& from = chosen.job.train.warm_start.run; !from.empty()) {
    PosixStorage disk;
    DP_TRY(const ModelFiles start, ModelFiles::of_run(disk, from));
    DP_TRY_VOID(start.save(storage, from));
  }
  DP_TRY(const bool stopped, run(request, plan, storage, warnings));
  DP_TRY(ModelFiles model, ModelFiles::of_run(storage, kRunFolder));
  return Trained{std::move(model), std::move(chosen.reason), std::move(warnings), stopped};
}

}  // namespace downpour::tools
