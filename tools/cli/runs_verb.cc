// The verbs runs, compare and plot, which show what happened in runs.
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "chief/runtime/report_json.h"
#include "shared/base/error_text.h"
#include "shared/env/storage.h"
#include "tools/cli/verbs.h"
#include "tools/history/chart.h"
#include "tools/history/run_tables.h"

namespace downpour::tools {
namespace {

struct RunsFlags {
  std::vector<std::string> runs;
  std::string folder = "runs";
  std::string out;
  bool json = false;
};

std::string without_slash(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

Result<std::vector<RunOverview>> read_all(const RunsFlags& flags) {
  PosixStorage storage;
  std::vector<RunOverview> runs;
  for (const std::string& folder : flags.runs) {
    DP_TRY(RunOverview run, read_run_overview(storage, without_slash(folder)));
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<void> print_runs(const RunsFlags& flags) {
  PosixStorage storage;
  std::vector<Error> unreadable;
  DP_TRY(const auto runs, read_run_overviews(storage, without_slash(flags.folder), unreadable));
  std::fputs(
      flags.json ? (chief::json_line(runs_json(runs)) + "\n").c_str() : runs_text(runs).c_str(),
      stdout);
  if (unreadable.empty()) return {};
  for (size_t i = 0; i + 1 < unreadable.size(); ++i) report_error(unreadable[i]);
  return unreadable.back();
}

Result<void> print_comparison(const RunsFlags& flags) {
  DP_TRY(const auto runs, read_all(flags));
  std::fputs(flags.json ? (chief::json_line(compare_json(runs)) + "\n").c_str()
                        : compare_text(runs).c_str(),
             stdout);
  return {};
}

/// Returns the default name of the chart: that of the run folder, or runs.svg for several runs.
std::string chart_name(const std::vector<std::string>& runs) {
  const std::string run = without_slash(runs.front());
  const std::string name = run.substr(run.rfind('/') + 1);
  const bool is_name = name.find_first_not_of('.') != std::string::npos;
  return runs.size() == 1 && is_name ? name + ".svg" : "runs.svg";
}

Result<void> plot(const RunsFlags& flags) {
  const std::string out = flags.out.empty() ? chart_name(flags.runs) : flags.out;
  if (!out.ends_with(".svg")) {
    return Error{ErrorCode::kUsage,
                 str("the name of the chart is `", out, "`, and must end in .svg"), "",
                 "for example -o runs.svg; a browser shows the file and can print it", ""};
  }
  DP_TRY(const auto runs, read_all(flags));
  for (const RunOverview& run : runs) {
    if (run.lines.empty()) {
      return Error{ErrorCode::kNoInput, "the run has no finished epoch to draw", run.folder,
                   "downpour runs lists the runs and their epochs", ""};
    }
  }
  PosixStorage storage;
  DP_TRY_VOID(storage.write_file_atomic(out, as_bytes(to_svg(chart_of(runs)))));
  std::printf("chart   %s\n", printable(out).c_str());
  return {};
}

}  // namespace

void declare_runs(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, print_runs);
  verb->option_defaults()->always_capture_default();
  verb->add_option("folder", flags->folder, "Folder that has the run folders");
  verb->add_flag("--json", flags->json, "As JSON");
  verb->footer("Example:\n  downpour runs runs");
}

void declare_compare(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, print_comparison);
  verb->add_option("run", flags->runs, "Run folders")->required()->expected(2, -1);
  verb->add_flag("--json", flags->json, "As JSON");
  verb->footer("Example:\n  downpour compare runs/clicks runs/clicks-adam");
}

void declare_plot(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, plot);
  verb->add_option("run", flags->runs, "Run folders")->required();
  verb->add_option("-o,--out", flags->out,
                   "File to write: NAME.svg; default: the name of the run, or runs.svg");
  verb->footer(
      "Examples:\n  downpour plot runs/clicks                           write clicks.svg\n  "
      "downpour "
      "plot runs/clicks runs/clicks-adam -o adam.svg");
}

}  // namespace downpour::tools
