
#include "chief/runtime/job_setup.h"
#include "shared/env/signals.h"
#include "tools/cli/linear_baseline.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct TrainFlags {
  CommonFlags common;
  std::vector<std::string> job;
  bool fresh = false;
  bool takeover = false;
  bool dry_run = false;
};

int run_train(const TrainFlags& flags) {
  exit_on_stop_signals();
  RunRequest request;
  request.console = console_options(flags.common);
  const auto overrides = overrides_of(flags.common);
  if (!overrides) return report(overrides.error(), request.console);
  chief::JobUse use{.begins = !flags.dry_run, .fresh = flags.fresh, .takeover = flags.takeover};
  if (!request.console.quiet) use.progress = chief::print_spooling;
  auto given = chief::load_given_job(flags.job, *overrides, use);
  if (!given) return report(given.error(), request.console);
  if (!given->sniffed.empty() && !request.console.quiet &&
      request.console.format == chief::LogFormat::kText)
    std::fprintf(stderr, "data: %s\n", given->sniffed.c_str());
  if (given->from_data_file) request.baseline = linear_baseline;
  request.job = std::move(given->loaded.job);
  request.origins = std::move(given->loaded.origins);
  request.lock = std::move(given->lock);
  request.notes = std::move(given->notes);
  request.command = given_command(flags.job, flags.common);
  request.fresh = flags.fresh;
  request.takeover = flags.takeover;
  request.dry_run = flags.dry_run;
  return run_job(std::move(request));
}

}  // namespace

void declare_train(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_train);
  verb->option_defaults()->always_capture_default();
  verb->add_option(
          "job", flags->job,
          "Job file (.toml), or data files, folders and globs: their format is detected and a "
          "job is generated")
      ->required();
  verb->add_flag(
      "--fresh", flags->fresh,
      "Start a new run: remove the contents of the run folder. Without it, a stopped run resumes");
  verb->add_flag("--takeover", flags->takeover,
                 "Take over the run from a chief that hangs and can't be stopped");
  verb->add_flag("--dry-run", flags->dry_run,
                 "Print the effective job, the shards and the memory per ps, and exit");
  add_job_flags(*verb, flags->common);
  add_output_flags(*verb, flags->common);
  verb->add_flag("--verbose", flags->common.verbose,
                 "Print also how the workers spent their time, and moves of partitions")
      ->group("Output");
  verb->footer(
      "Examples:\n  downpour train clicks.libsvm                     train a default model on a "
      "file\n  downpour train day1.csv day2.csv                  on several files\n  downpour "
      "train job.toml                          train in one process\n  downpour "
      "train job.toml --ps 2 --workers 2       train with several local processes, over ipc\n  "
      "downpour train job.toml --set train.epochs=10    resume the run, if it exists");
}

}  // namespace downpour::tools
