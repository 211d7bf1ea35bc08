// Functions that add the verbs of `downpour` to the command line. docs/cli.md describes the verbs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "chief/runtime/console.h"
#include "shared/base/error_text.h"
#include "shared/job/job_file.h"

namespace downpour::tools {

/// The flags that several verbs share.
struct CommonFlags {
  std::string log_format = "text";
  std::string color = "auto";
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> set;
  // Short forms of --set; empty: not given.
  std::string ps, workers, input_workers, threads, transport, epochs, steps, seed, target;
};

/// Return the exit status of a verb, and print its error.
inline int exit_status(int status) { return status; }
inline int exit_status(const Result<int>& done) {
  return done ? *done : report_error(done.error());
}
inline int exit_status(const Result<void>& done) { return done ? 0 : report_error(done.error()); }

/// If the user calls the verb, `status` is set to the exit status of `run(flags)`, which returns
/// int, Result<int> or Result<void>. Returns the flags, for the options of the verb; they live as
/// long as it does.
template <typename Returned, typename Flags>
Flags* set_run(CLI::App* verb, int& status, Returned (*run)(const Flags&)) {
  auto flags = std::make_shared<Flags>();
  verb->callback([flags, run, &status] { status = exit_status(run(*flags)); });
  return flags.get();
}

void add_output_flags(CLI::App& app, CommonFlags& flags);
void add_job_flags(CLI::App& app, CommonFlags& flags);
/// Add the options of verbs that read a data set without a run: its names, its format, --set.
void add_data_names(CLI::App& app, std::vector<std::string>& names);
void add_data_format(CLI::App& app, std::string& format);
void add_data_set_flag(CLI::App& app, CommonFlags& flags);

/// Returns the output options that follow from the terminal, NO_COLOR, CLICOLOR_FORCE, TERM and the
/// flags.
chief::ConsoleOptions console_options(const CommonFlags& flags);

/// Returns the `downpour train` command that the user gave: the job or data file, and the flags of
/// add_job_flags().
chief::GivenCommand given_command(std::span<const std::string> job, const CommonFlags& flags);

/// Returns the overrides in the order in which they apply: environment, --set, short flags. A later
/// override of a key replaces an earlier one.
Result<std::vector<Override>> overrides_of(const CommonFlags& flags);

/// Each function adds the options of a verb. If the user calls the verb, `status` is set to its
/// exit status.
void declare_train(CLI::App* verb, int& status);
void declare_init(CLI::App* verb, int& status);
void declare_eval(CLI::App* verb, int& status);
void declare_predict(CLI::App* verb, int& status);
void declare_importance(CLI::App* verb, int& status);
void declare_serve(CLI::App* verb, int& status);
void declare_average(CLI::App* verb, int& status);
void declare_synth(CLI::App* verb, int& status);
void declare_export(CLI::App* verb, int& status);
void declare_inspect(CLI::App* verb, int& status);
void declare_runs(CLI::App* verb, int& status);
void declare_compare(CLI::App* verb, int& status);
void declare_plot(CLI::App* verb, int& status);
void declare_data(CLI::App* verb, int& status);
void declare_shard(CLI::App* verb, int& status);
void declare_sim(CLI::App* verb, int& status);
void declare_bench(CLI::App* verb, int& status);
void declare_node(CLI::App* verb, int& status);
void declare_keys(CLI::App* verb, int& status);
void declare_version(CLI::App* verb, int& status);
void declare_explain(CLI::App* verb, int& status);

}  // namespace downpour::tools
