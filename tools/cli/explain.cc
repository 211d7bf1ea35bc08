#include <cstdio>

#include "shared/base/error_text.h"
#include "tools/cli/explain_record.h"
#include "tools/cli/run.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct ExplainFlags {
  std::string what;
  std::string run;
  bool line = false, byte = false;
};

int run_explain(const ExplainFlags& flags) {
  ExplainRecordRequest request{.record = flags.what, .run = flags.run};
  if (flags.line) request.unit = data::RecordUnit::kLine;
  if (flags.byte) request.unit = data::RecordUnit::kByte;
  const auto page = names_record(flags.what) ? explain_record(request) : explain_error(flags.what);
  if (!page) return report(page.error(), {});
  std::fputs(page->c_str(), stdout);
  return 0;
}

}  // namespace

void declare_explain(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_explain);
  verb->add_option("what", flags->what, "Error id (DP-2104), or FILE:RECORD")->required();
  verb->add_option("--run", flags->run,
                   "Run folder or job file; default: the run below ./runs that reads the file");
  CLI::Option* line =
      verb->add_flag("--line", flags->line, "N in FILE:N is a line number, as in error messages");
  verb->add_flag("--byte", flags->byte, "N in FILE:N is a byte offset")->excludes(line);
  verb->footer(
      "Examples:\n"
      "  downpour explain DP-2104\n"
      "  downpour explain clicks.tsv:4711 --run runs/clicks    # shard, batch, workers, attempts\n"
      "  downpour explain clicks.tsv:4712 --line");
}

}  // namespace downpour::tools
