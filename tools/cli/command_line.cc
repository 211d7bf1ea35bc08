#include "tools/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "shared/base/error_text.h"
#include "shared/base/version.h"
#include "shared/job/nearest_name.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n  downpour synth clicks.tsv --rows 1000000        generate click data\n  downpour "
    "train clicks.tsv                       train a model on a file\n  downpour train job.toml "
    "--ps 2 --workers 2      train a job with several local processes\n  downpour eval runs/clicks "
    "--data more.tsv       evaluate the model\n  downpour predict runs/clicks --data new.tsv     "
    "write predictions\n  downpour VERB --help                            show the flags of a verb";

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{
      "Downpour trains models with very large sparse variables on parameter servers and workers, "
      "and applies every record exactly once per epoch."};
  app.set_version_flag("--version", kBuildVersion);
  app.require_subcommand(1);
  app.footer(kExamples);
  int status = 0;
  add_train(app, status);
  add_init(app, status);
  add_eval(app, status);
  add_predict(app, status);
  add_importance(app, status);
  add_serve(app, status);
  add_average(app, status);
  add_synth(app, status);
  add_inspect(app, status);
  add_runs(app, status);
  add_compare(app, status);
  add_plot(app, status);
  add_export(app, status);
  add_data(app, status);
  add_shard(app, status);
  add_sim(app, status);
  add_bench(app, status);
  add_node(app, status);
  add_keys(app, status);
  add_explain(app, status);
  add_version(app, status);
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

}  // namespace downpour::tools
