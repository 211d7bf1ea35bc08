#include <iostream>
#include <memory>

#include "tools/cli/inspect.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {

void add_inspect(CLI::App& app, int& status) {
  struct Flags {
    std::string path;
    InspectOptions options;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand(
      "inspect",
      "Show variables, rows, bytes and norms of a saved model, and verify its checksums");
  verb->add_option("path", flags->path, "Run folder, or manifest file in a run folder")->required();
  verb->add_flag("--json", flags->options.json, "As JSON");
  verb->footer("Example:\n  downpour inspect runs/a9a");
  verb->callback(
      [flags, &status] { status = run_inspect(flags->path, flags->options, std::cout); });
}

}  // namespace downpour::tools
