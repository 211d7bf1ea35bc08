#include <cstdio>
#include <filesystem>

#include "chief/runtime/average.h"
#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/env/storage.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct AverageFlags {
  std::vector<std::string> runs;
  std::string out;
};

std::string absolute(const std::string& path) {
  std::error_code ignored;
  std::string normal = std::filesystem::absolute(path, ignored).lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

Result<void> run_average(const AverageFlags& flags) {
  std::vector<std::string> runs;
  for (const std::string& run : flags.runs) runs.push_back(absolute(run));
  PosixStorage storage;
  DP_TRY(const chief::Averaged averaged, chief::average_runs(storage, runs, absolute(flags.out)));
  for (const std::string& note : averaged.notes)
    std::fprintf(stderr, "warning: %s\n", printable(note).c_str());
  std::vector<std::vector<std::string>> rows = {{"run", "checkpoint", "records", "share"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const chief::Averaged::Part& part = averaged.parts[i];
    char share[32];
    std::snprintf(share, sizeof share, "%.1f %%", 100 * part.share);
    rows.push_back({printable(flags.runs[i]), part.checkpoint, grouped(part.records), share});
  }
  std::printf(
      "%smodel   %s: the mean of %zu models, %s rows\nnext    evaluate: downpour eval %s "
      "--data FILE; or begin a run with it: train.warm_start = { run = \"%s\" }\n",
      table_text(rows, /*left_columns=*/2).c_str(), printable(flags.out).c_str(), runs.size(),
      grouped(averaged.rows).c_str(), printable(flags.out).c_str(),
      printable(absolute(flags.out)).c_str());
  return {};
}

}  // namespace

void declare_average(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_average);
  verb->add_option("runs", flags->runs, "Run folders, two or more")->required()->expected(2, -1);
  verb->add_option("--out", flags->out, "New run folder for the mean")->required();
  verb->footer("Example:\n  downpour average runs/part-* --out runs/mean");
}

}  // namespace downpour::tools
