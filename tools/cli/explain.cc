#include <cstdio>
#include <memory>

#include "shared/base/error_text.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {

void add_explain(CLI::App& app, int& status) {
  auto id = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("explain", "What an error means and what to do about it");
  verb->add_option("id", *id, "The id that the error showed, e.g. DP-2104")->required();
  verb->callback([id, &status] {
    const auto page = explain_error(*id);
    if (!page) {
      status = report(page.error(), {});
      return;
    }
    std::fputs(page->c_str(), stdout);
    status = 0;
  });
}

}  // namespace downpour::tools
