#include <memory>

#include "chief/runtime/job_setup.h"
#include "shared/env/signals.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct TrainFlags {
  CommonFlags common;
  std::string job;
  bool fresh = false;
  bool takeover = false;
  bool dry_run = false;
};

int train(const TrainFlags& flags) {
  exit_on_stop_signals();
  RunRequest request;
  request.console = console_options(flags.common);
  const auto overrides = overrides_of(flags.common);
  if (!overrides) return report(overrides.error(), request.console);
  chief::JobUse use{.begins = !flags.dry_run, .fresh = flags.fresh, .takeover = flags.takeover};
  if (!request.console.quiet) use.progress = chief::print_spooling;
  auto given = chief::load_given_job(flags.job, *overrides, use);
  if (!given) return report(given.error(), request.console);
  if (!given->sniffed.empty() && !request.console.quiet)
    std::fprintf(stderr, "data: %s\n", given->sniffed.c_str());
  request.job = std::move(given->loaded.job);
  request.origins = std::move(given->loaded.origins);
  request.lock = std::move(given->lock);
  request.notes = std::move(given->notes);
  request.job_argument = flags.job;
  request.fresh = flags.fresh;
  request.takeover = flags.takeover;
  request.dry_run = flags.dry_run;
  return run_job(std::move(request));
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* verb = app.add_subcommand("train", "Train a job file, or a data file without a job");
  verb->option_defaults()->always_capture_default();
  verb->add_option("job", flags->job,
                   "A job (.toml), or a data file: its format is found out and a job chosen for it")
      ->required();
  verb->add_flag(
      "--fresh", flags->fresh,
      "Begin anew: removes what the run folder holds. Otherwise a run goes on where it stopped");
  verb->add_flag("--takeover", flags->takeover,
                 "Take the run from a chief that hangs and can't be ended");
  verb->add_flag("--dry-run", flags->dry_run,
                 "Print the effective job, the shards and the memory per ps; do nothing");
  add_job_flags(*verb, flags->common);
  add_output_flags(*verb, flags->common);
  verb->footer(
      "Examples:\n"
      "  downpour train clicks.libsvm                     a model for a file, nothing else needed\n"
      "  downpour train job.toml                          everything in one process\n"
      "  downpour train job.toml --ps 2 --workers 2       processes of this machine, over ipc\n"
      "  downpour train job.toml --set train.epochs=10    goes on, if the run is there already");
  verb->callback([flags, &status] { status = train(*flags); });
}

}  // namespace downpour::tools
