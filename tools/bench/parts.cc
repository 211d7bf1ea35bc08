#include <utility>

#include "shared/base/check.h"
#include "tools/bench/bench.h"

namespace downpour::tools {
namespace {

using Run = std::vector<BenchResult> (*)(const BenchOptions&);

// Parts that fork must run before parts that start threads which outlive them.
constexpr std::pair<const char*, Run> kParts[] = {
    {"table", bench_table},         {"codec", bench_codec},
    {"input", bench_input},         {"transport", bench_transport},
    {"push_pull", bench_push_pull}, {"checkpoint", bench_checkpoint},
    {"idle", bench_idle},           {"train", bench_train},
};

}  // namespace

const std::vector<std::string>& bench_parts() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, run] : kParts) out.emplace_back(name);
    return out;
  }();
  return names;
}

std::vector<BenchResult> run_bench(const std::string& part, const BenchOptions& options) {
  for (const auto& [name, run] : kParts) {
    if (part == name) return run(options);
  }
  DP_CHECK(false, part);
  return {};
}

}  // namespace downpour::tools
