// Functions that add the verbs of `downpour` to the command line. docs/cli.md describes the verbs.
#pragma once

#include <memory>
#include <string>
#include <utility>
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

/// A verb, and the flags that its options set. Both live as long as the command line.
template <typename Flags>
struct Verb {
  CLI::App* verb;
  Flags* flags;
};

/// Return the exit status of a verb, and print its error.
inline int exit_status(int status) { return status; }
inline int exit_status(const Result<int>& done) {
  return done ? *done : report_error(done.error());
}
inline int exit_status(const Result<void>& done) { return done ? 0 : report_error(done.error()); }

/// Adds a verb. If the user calls it, `status` is set to the exit status of `run(flags)`, which
/// returns int, Result<int> or Result<void>.
template <typename Result, typename Flags>
Verb<Flags> add_verb(CLI::App& app, int& status, Result (*run)(const Flags&), const char* name,
                     const char* help) {
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand(name, help);
  verb->callback([flags, run, &status] { status = exit_status(run(*flags)); });
  return {verb, flags.get()};
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
chief::GivenCommand given_command(const std::string& job, const CommonFlags& flags);

/// Returns the overrides in the order in which they apply: environment, --set, short flags. A later
/// override of a key replaces an earlier one.
Result<std::vector<Override>> overrides_of(const CommonFlags& flags);

/// Each function adds a verb. If the user calls the verb, `status` is set to its exit status.
void add_train(CLI::App& app, int& status);
void add_init(CLI::App& app, int& status);
void add_eval(CLI::App& app, int& status);
void add_predict(CLI::App& app, int& status);
void add_importance(CLI::App& app, int& status);
void add_serve(CLI::App& app, int& status);
void add_average(CLI::App& app, int& status);
void add_synth(CLI::App& app, int& status);
void add_export(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_runs(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_plot(CLI::App& app, int& status);
void add_data(CLI::App& app, int& status);
void add_shard(CLI::App& app, int& status);
void add_sim(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_node(CLI::App& app, int& status);
void add_keys(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);

}  // namespace downpour::tools
