#include <array>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

#include "chief/runtime/job_setup.h"
#include "shared/base/str.h"
#include "shared/job/formats.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {

void add_output_flags(CLI::App& app, CommonFlags& flags) {
  app.add_option("--log-format", flags.log_format, "Format of progress and notices on stderr")
      ->check(CLI::IsMember({"text", "json"}))
      ->group("Output");
  app.add_option("--color", flags.color, "Use colors; auto: only on a terminal")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->group("Output");
  app.add_flag("-q,--quiet", flags.quiet, "Print only results and errors, without progress")
      ->group("Output");
}

void add_job_flags(CLI::App& app, CommonFlags& flags) {
  app.add_option("--set", flags.set, "Override a key of the job: --set optimizer.learning_rate=0.1")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->group("Job");
  const auto brief = [&](const char* name, std::string& value, const char* help,
                         const char* group) {
    app.add_option(name, value, help)->default_str("")->group(group);
  };
  brief("--target", flags.target, "Field to predict (model.target); default: detected", "Job");
  brief("--epochs", flags.epochs, "Number of passes over the data (train.epochs)", "Job");
  brief("--steps", flags.steps, "Total number of batches, or of synchronous steps (train.steps)",
        "Job");
  brief("--seed", flags.seed, "Seed of all random numbers (seed)", "Job");
  brief("--ps", flags.ps,
        "Number of parameter servers; with more than one, local processes (cluster.ps). "
        "in_workers: each worker process also runs one",
        "Cluster");
  brief("--workers", flags.workers,
        "Number of workers; with more than one, local processes (cluster.workers). 0: one process, "
        "a worker for each replica",
        "Cluster");
  brief("--input-workers", flags.input_workers,
        "Number of local processes that only read data for the workers (cluster.input_workers)",
        "Cluster");
  brief(
      "--threads", flags.threads,
      "Total number of cores to use (cluster.threads); default: all that affinity and cgroup allow",
      "Cluster");
  app.add_option("--transport", flags.transport,
                 "Transport between local processes (cluster.transport)")
      ->check(CLI::IsMember({"ipc", "tcp"}))
      ->default_str("")
      ->group("Cluster");
}

void add_data_names(CLI::App& app, std::vector<std::string>& names) {
  app.add_option("data", names, "Data files, folders of .npy files, globs; or one job file (.toml)")
      ->required()
      ->default_str("");
}

void add_data_format(CLI::App& app, std::string& format) {
  static constexpr std::array kNames{"auto",   "tfrecord", "libsvm", "libffm", "csv",  "tsv",
                                     "criteo", "jsonl",    "npy",    "npz",    "mnist"};
  // Every format of files is listed, in the order of the help text.
  static_assert(kNames.size() == kFormats.size() - 1);
  static_assert(std::ranges::all_of(kNames, [](std::string_view name) {
    return std::ranges::find(kFormats, name, &FormatTraits::name) != kFormats.end();
  }));
  app.add_option("--format", format, "Format of data files; auto detects it from the first file")
      ->check(CLI::IsMember(std::vector<std::string>(kNames.begin(), kNames.end())))
      ->group("Data");
}

void add_data_set_flag(CLI::App& app, CommonFlags& flags) {
  app.add_option("--set", flags.set, "Override a key of the job")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->default_str("")
      ->group("Data");
}

chief::ConsoleOptions console_options(const CommonFlags& flags) {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::strcmp(term, "dumb") == 0;
  chief::ConsoleOptions options;
  options.format = flags.log_format == "json" ? chief::LogFormat::kJson : chief::LogFormat::kText;
  options.quiet = flags.quiet;
  options.verbose = flags.verbose;
  options.terminal = isatty(STDERR_FILENO) != 0 && !dumb;
  options.color = flags.color == "always" || (flags.color == "auto" && !set("NO_COLOR") &&
                                              (options.terminal || set("CLICOLOR_FORCE")));
  const bool out_terminal = isatty(STDOUT_FILENO) != 0 && !dumb;
  options.out_color =
      options.color && (out_terminal || flags.color == "always" || set("CLICOLOR_FORCE"));
  winsize size{};
  if (options.terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    options.columns = size.ws_col;
  if (out_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
    options.out_columns = size.ws_col;
  return options;
}

namespace {

/// Returns an argument as a shell reads it.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

chief::GivenCommand given_command(std::span<const std::string> job, const CommonFlags& flags) {
  chief::GivenCommand command{.text = "downpour train", .length = ""};
  for (const std::string& path : job) command.text += " " + shell_word(path);
  const auto add = [](std::string& to, const char* flag, const std::string& value) {
    if (!value.empty()) to += str(" ", flag, " ", shell_word(value));
  };
  for (const std::string& text : flags.set) add(command.text, "--set", text);
  add(command.text, "--target", flags.target);
  add(command.text, "--seed", flags.seed);
  add(command.text, "--ps", flags.ps);
  add(command.text, "--workers", flags.workers);
  add(command.text, "--input-workers", flags.input_workers);
  add(command.text, "--threads", flags.threads);
  add(command.text, "--transport", flags.transport);
  add(command.length, "--epochs", flags.epochs);
  add(command.length, "--steps", flags.steps);
  return command;
}

Result<std::vector<Override>> overrides_of(const CommonFlags& flags) {
  std::vector<Override> overrides = chief::environment_overrides();
  for (const std::string& text : flags.set) {
    DP_TRY(Override override, chief::parse_set(text));
    overrides.push_back(std::move(override));
  }
  const auto brief = [&](const char* key, const std::string& value, const char* origin) {
    if (!value.empty()) overrides.push_back({key, value, origin});
  };
  brief("model.target", flags.target, "--target");
  brief("train.epochs", flags.epochs, "--epochs");
  brief("train.steps", flags.steps, "--steps");
  brief("seed", flags.seed, "--seed");
  brief("cluster.ps", flags.ps, "--ps");
  brief("cluster.workers", flags.workers, "--workers");
  brief("cluster.input_workers", flags.input_workers, "--input-workers");
  brief("cluster.threads", flags.threads, "--threads");
  brief("cluster.transport", flags.transport, "--transport");
  return overrides;
}

}  // namespace downpour::tools
