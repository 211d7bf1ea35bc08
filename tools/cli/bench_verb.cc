#include <cstdio>

#include "tools/bench/bench.h"
#include "tools/bench/report.h"
#include "tools/cli/verbs.h"

namespace downpour::tools {
namespace {

struct BenchFlags {
  std::vector<std::string> parts;
  BenchOptions options;
  bool json = false;
};

int bench(const BenchFlags& flags) {
  std::vector<BenchResult> results;
  for (const std::string& part : flags.parts.empty() ? bench_parts() : flags.parts) {
    for (BenchResult& result : run_bench(part, flags.options)) results.push_back(std::move(result));
  }
  std::fputs((flags.json ? bench_json(results) + "\n" : bench_text(results)).c_str(), stdout);
  return 0;
}

}  // namespace

void declare_bench(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, bench);
  verb->option_defaults()->always_capture_default();
  verb->add_option("part", flags->parts, "What to measure; default: everything")
      ->check(CLI::IsMember(bench_parts()))
      ->default_str("");
  verb->add_flag("--quick", flags->options.quick, "Small sizes: takes only seconds in total");
  verb->add_option("--seed", flags->options.seed, "Seed of the generated keys and values");
  verb->add_flag("--json", flags->json, "As JSON");
  verb->footer("Examples:\n  downpour bench\n  downpour bench table --json");
}

}  // namespace downpour::tools
