#include "tools/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "shared/base/error_text.h"
#include "shared/base/version.h"
#include "shared/env/process.h"
#include "shared/job/nearest_name.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct VerbEntry {
  const char* name;
  const char* help;
  void (*declare)(CLI::App* verb, int& status);
};
constexpr VerbEntry kVerbs[] = {
    {"train", "Train the model of a job file, or a default model on a data file", declare_train},
    {"init", "Write a job file for a data file, with comments, to edit and train", declare_init},
    {"eval", "Evaluate a saved model, and print its metrics", declare_eval},
    {"predict",
     "Write the predictions of a saved model, one line per record, in the order of the data",
     declare_predict},
    {"importance",
     "Show how much worse a saved model becomes when the values of one column are shuffled",
     declare_importance},
    {"serve", "Answer HTTP requests with a saved model's predictions", declare_serve},
    {"average",
     "Average the models of several runs of one job on different data, in proportion to their "
     "records",
     declare_average},
    {"synth",
     "Generate click data from a known model, and print the best "
     "AUC and logloss that a model can reach on it",
     declare_synth},
    {"inspect", "Show variables, rows, bytes and norms of a saved model, and verify its checksums",
     declare_inspect},
    {"runs", "List the runs in a folder: model, epochs, best evaluation and state", declare_runs},
    {"compare", "Show runs side by side: the keys in which their jobs differ, and their metrics",
     declare_compare},
    {"plot",
     "Draw loss, metrics and learning rate of runs, epoch by epoch, and the reliability of "
     "predicted probabilities, as an SVG file",
     declare_plot},
    {"export", "Write a saved model to a file for other programs: its variables, or an ONNX model",
     declare_export},
    {"data", "Inspect data: records, counts, statistics, bad records, shards of each worker",
     declare_data},
    {"shard", "Rewrite a data set: split, merge, convert, shuffle or compress it", declare_shard},
    {"sim", "Train a job on a simulated cluster, with injected faults", declare_sim},
    {"bench",
     "Benchmark this build on this machine, and measure the hardware limit in the same run",
     declare_bench},
    {"node",
     "Run the chief, a ps or a worker, as the environment variable TF_CONFIG says; without it, "
     "train in this process",
     declare_node},
    {"keys", "Create the keys by which the processes of a cluster authenticate each other",
     declare_keys},
    {"explain", "Explain an error id, or show what happened to a record in a run", declare_explain},
    {"version", "Version of this build and of its protocol", declare_version},
};

constexpr const char* kExamples =
    "Examples:\n  downpour synth clicks.tsv --rows 1000000        generate click data\n  downpour "
    "train clicks.tsv                       train a model on a file\n  downpour train job.toml "
    "--ps 2 --workers 2      train a job with several local processes\n  downpour eval runs/clicks "
    "--data more.tsv       evaluate the model\n  downpour predict runs/clicks --data new.tsv     "
    "write predictions\n  downpour VERB --help                            show the flags of a verb";

int run_verb(int argc, char** argv) {
  CLI::App app{
      "Downpour trains models with very large sparse variables on parameter servers and workers, "
      "and applies every record exactly once per epoch."};
  app.set_version_flag("--version", kBuildVersion);
  app.require_subcommand(1);
  app.footer(kExamples);
  int status = 0;
  for (const VerbEntry& entry : kVerbs)
    entry.declare(app.add_subcommand(entry.name, entry.help), status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    Error said{ErrorCode::kUsage, error.what(), "",
               "downpour --help shows the verbs; downpour VERB --help shows the flags of a verb",
               ""};
    std::vector<std::string> verbs;
    for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
    if (argc > 1 && argv[1][0] != '-' &&
        std::find(verbs.begin(), verbs.end(), argv[1]) == verbs.end()) {
      said.what = str("`", argv[1], "` is not a verb");
      if (const std::string near = nearest_name(argv[1], verbs); !near.empty())
        said.hint = str("did you mean `", near, "`? downpour --help shows the verbs");
    }
    std::fputs(format_error(said, false).c_str(), stderr);
    return exit_code(said.code);
  }
  return status;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  prepare_process();
  return checked_output(run_verb(argc, argv));
}

}  // namespace downpour::tools
