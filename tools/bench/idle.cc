// Measures the memory and CPU of an idle cluster of processes, and the time until training begins.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/env/process.h"
#include "shared/synth/synth.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"

namespace downpour::tools {
namespace {

constexpr const char* kJob = R"(
run_dir   = "run"
data      = { source = "train.svm", format = "libsvm" }
model     = { preset = "logistic_regression" }
optimizer = { type = "ftrl", learning_rate = 0.1 }
train     = { epochs = 1, batch_size = 256 }
)";

/// Returns the number after `key` in a file of /proc/PID; 0 if the key is missing.
uint64_t proc_number(pid_t pid, const char* file, const std::string& key) {
  std::ifstream in(str("/proc/", pid, "/", file));
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  }
  return 0;
}

/// Returns the CPU seconds that the process has used.
double cpu_seconds(pid_t pid) {
  std::ifstream in(str("/proc/", pid, "/stat"));
  std::string line;
  std::getline(in, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  double ticks = 0;
  for (int i = 3; fields >> field && i <= 15; ++i) {
    if (i >= 14) ticks += std::stod(field);
  }
  return ticks / double(::sysconf(_SC_CLK_TCK));
}

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool contains(const std::string& path, const char* text) {
  std::ifstream in(path);
  std::ostringstream content;
  content << in.rdbuf();
  return content.str().find(text) != std::string::npos;
}

/// Measures a chief, two ps and two workers. All have joined, but the chief waits for a third ps.
void bench_waiting(const std::string& bin, const std::string& folder, bool quick,
                   std::vector<BenchResult>& results) {
  const std::string chief = str("ipc://", folder, "/chief"), log = folder + "/idle.log";
  std::vector<std::unique_ptr<Child>> processes;
  const auto start = [&](const std::vector<std::string>& command) {
    processes.push_back(std::make_unique<Child>(command, log));
  };
  start({bin + "/downpour-chief", folder + "/job.toml", "--bind", chief, "--set", "cluster.ps=3",
         "--set", "cluster.workers=2", "--fresh"});
  for (int i = 0; i < 2; ++i) {
    start({bin + "/downpour-ps", "--chief", chief, "--bind", str("ipc://", folder, "/ps-", i)});
    start({bin + "/downpour-worker", "--chief", chief});
  }
  sleep_seconds(quick ? 1 : 3);
  double rss = 0, pss = 0, cpu_before = 0, cpu_after = 0;
  for (const auto& process : processes) cpu_before += cpu_seconds(process->pid());
  constexpr double kWatched = 1;
  sleep_seconds(kWatched);
  for (const auto& process : processes) {
    DP_CHECK(process->running(), std::ifstream(log).rdbuf());
    rss += double(proc_number(process->pid(), "status", "VmRSS:")) * 1024 / 1e6;
    pss += double(proc_number(process->pid(), "smaps_rollup", "Pss:")) * 1024 / 1e6;
    cpu_after += cpu_seconds(process->pid());
  }
  results.push_back({"idle chief + 2 ps + 2 workers, memory (sum of PSS)", pss, "MB",
                     "100 MB in all", 100, true});
  results.push_back(
      {"idle chief + 2 ps + 2 workers, memory (sum of RSS, shared pages counted five times)", rss,
       "MB", "", 0});
  results.push_back({"idle chief + 2 ps + 2 workers, CPU",
                     (cpu_after - cpu_before) / kWatched * 100, "% core", "", 0});
}

/// Measures the time from the start of `downpour train` until the first shard has ended.
void bench_start(const std::string& bin, const std::string& folder, int rounds,
                 std::vector<BenchResult>& results) {
  const std::string events = folder + "/run/events.jsonl", log = folder + "/start.log";
  Repeated repeated;
  for (int round = 0; round < rounds; ++round) {
    ::unlink(events.c_str());
    const double begin = wall_seconds();
    Child train({bin + "/downpour", "train", folder + "/job.toml", "--fresh", "--quiet", "--ps",
                 "2", "--workers", "2"},
                log);
    while (!contains(events, "\"ended\"") && wall_seconds() - begin < 30) {
      if (!train.running() && !contains(events, "\"ended\"")) break;
      sleep_seconds(0.002);
    }
    DP_CHECK(contains(events, "\"ended\""), std::ifstream(log).rdbuf());
    repeated.add((wall_seconds() - begin) * 1e3, 1000);
    while (train.running()) sleep_seconds(0.01);
  }
  BenchResult result = repeated.result("start of 2 ps + 2 workers until the first shard has ended",
                                       "ms", "1 s to the first step");
  result.bound = true;
  results.push_back(std::move(result));
}

}  // namespace

std::vector<BenchResult> bench_idle(const BenchOptions& options) {
  const std::string bin = program_dir();
  for (const char* program : {"downpour", "downpour-chief", "downpour-ps", "downpour-worker"}) {
    if (::access(str(bin, "/", program).c_str(), X_OK) != 0) return {};
  }
  const ScratchDir scratch;
  SynthOptions data;
  data.rows = 4'000;
  data.format = SynthFormat::kLibsvm;
  const auto made = downpour::data::synthesize(data, scratch.path() + "/train.svm");
  DP_CHECK(made.has_value(), made.error().what);
  std::ofstream(scratch.path() + "/job.toml") << kJob;
  std::vector<BenchResult> results;
  bench_waiting(bin, scratch.path(), options.quick, results);
  bench_start(bin, scratch.path(), options.quick ? 1 : 5, results);
  return results;
}

}  // namespace downpour::tools
