// The verbs of `downpour`, each of which adds itself to the command line. docs/cli.md shows them.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "chief/runtime/console.h"
#include "shared/job/job_file.h"

namespace downpour::tools {

/// Flags that every verb has.
struct CommonFlags {
  std::string log_format = "text";
  std::string color = "auto";
  bool quiet = false;
  std::vector<std::string> set;
  std::string ps, workers, input_workers, threads, transport, epochs, steps,
      seed;  // short for --set; empty: not given
};

void add_output_flags(CLI::App& app, CommonFlags& flags);
void add_job_flags(CLI::App& app, CommonFlags& flags);

/// What the terminal, NO_COLOR, CLICOLOR_FORCE, TERM and the flags come to.
chief::ConsoleOptions console_options(const CommonFlags& flags);

/// Environment first, then --set, then the short flags: later ones win.
Result<std::vector<Override>> overrides_of(const CommonFlags& flags);

/// Each adds its verb; when it was given, `status` gets its exit status.
void add_train(CLI::App& app, int& status);
void add_eval(CLI::App& app, int& status);
void add_predict(CLI::App& app, int& status);
void add_synth(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_data(CLI::App& app, int& status);
void add_shard(CLI::App& app, int& status);
void add_sim(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_keys(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);

}  // namespace downpour::tools
