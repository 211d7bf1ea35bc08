#include <iostream>

#include "tools/cli/inspect.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct InspectFlags {
  std::string path;
  InspectOptions options;
};

int inspect(const InspectFlags& flags) { return run_inspect(flags.path, flags.options, std::cout); }

}  // namespace

void declare_inspect(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, inspect);
  verb->add_option("path", flags->path, "Run folder, or manifest file in a run folder")->required();
  verb->add_flag("--json", flags->options.json, "As JSON");
  verb->add_option("--top", flags->options.top,
                   "Also show so many of the largest weights of linear layers, and of the rows of "
                   "embeddings by their norms, with keys and words")
      ->default_str("");
  verb->footer("Examples:\n  downpour inspect runs/a9a\n  downpour inspect runs/a9a --top 20");
}

}  // namespace downpour::tools
