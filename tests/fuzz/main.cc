// fuzz-readers: feeds broken inputs to all readers and reports violated invariants.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/campaign.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/support/scratch_dir.h"

namespace downpour::fuzz {

std::vector<Target> all_targets(const std::string& folder) {
  std::vector<Target> all;
  add_text_targets(folder, all);
  add_record_targets(folder, all);
  add_array_targets(folder, all);
  add_setting_targets(folder, all);
  add_state_targets(all);
  add_store_targets(all);
  add_serve_targets(all);
  add_key_targets(folder, all);
  add_bomb_targets(folder, all);
  return all;
}

namespace {

constexpr int kUsageExit = 64, kFoundExit = 1;
constexpr const char* kUsage =
    "usage: fuzz-readers [TARGET...] [--seconds 60] [--inputs N] [--seed 1] [--first 0] [--out .] "
    "[--list]\n"
    "       fuzz-readers --replay FILE\n";

struct Asked {
  std::vector<std::string> names;
  Limits limits;
  std::string out = ".", replay;
  bool list = false, wrong = false;
};

Asked parse(int count, char** arguments) {
  Asked asked;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--list") {
      asked.list = true;
    } else if (!name.starts_with("--")) {
      asked.names.push_back(name);
    } else if (i + 1 == count) {
      asked.wrong = true;
    } else {
      const std::string_view value = arguments[++i];
      const auto number = [&](auto& to) {
        const auto [end, error] = std::from_chars(value.begin(), value.end(), to);
        asked.wrong |= error != std::errc{} || end != value.end();
      };
      if (name == "--seconds") {
        number(asked.limits.seconds);
      } else if (name == "--inputs") {
        number(asked.limits.inputs);
      } else if (name == "--seed") {
        number(asked.limits.seed);
      } else if (name == "--first") {
        number(asked.limits.first);
      } else if (name == "--out") {
        asked.out = value;
      } else if (name == "--replay") {
        asked.replay = value;
      } else {
        asked.wrong = true;
      }
    }
  }
  return asked;
}

const Target* find(const std::vector<Target>& all, const std::string& name) {
  for (const Target& target : all)
    if (target.name == name) return &target;
  std::fprintf(stderr, "fuzz-readers: no target %s; --list names them\n", name.c_str());
  return nullptr;
}

int replay(const std::vector<Target>& all, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string name;
  Input input;
  if (!decode_input(std::string(std::istreambuf_iterator<char>(file), {}), name, input)) {
    std::fprintf(stderr, "fuzz-readers: %s is no input of this program\n", path.c_str());
    return kUsageExit;
  }
  const Target* const target = find(all, name);
  if (target == nullptr) return kUsageExit;
  const std::string what = run_alone(*target, input, /*quiet=*/false);
  std::printf("%s: %s\n", name.c_str(), what.empty() ? "all is well" : what.c_str());
  return what.empty() ? 0 : kFoundExit;
}

int fuzz(const std::vector<const Target*>& targets, const Asked& asked, const char* program) {
  int exit = 0;
  for (const Target* target : targets) {
    const Outcome outcome = run_campaign(*target, asked.limits, asked.out);
    std::printf("%-16s %9llu inputs %8.0f/s  memory <= %3llu MiB  slowest %6.0f ms  %s\n",
                target->name.c_str(), static_cast<unsigned long long>(outcome.inputs),
                double(outcome.inputs) / std::max(outcome.seconds, 1e-3),
                static_cast<unsigned long long>((outcome.peak_bytes + kMiB - 1) / kMiB),
                outcome.cpu_ms_max, outcome.finding ? outcome.finding->what.c_str() : "ok");
    if (outcome.finding)
      std::printf("  replay: %s --replay %s\n", program, outcome.finding->input.c_str());
    std::fflush(stdout);
    if (outcome.finding) exit = kFoundExit;
  }
  return exit;
}

int run(int count, char** arguments) {
  const Asked asked = parse(count, arguments);
  if (asked.wrong) {
    std::fputs(kUsage, stderr);
    return kUsageExit;
  }
  start_meter();
  const testing::ScratchDir scratch(/*in_memory=*/true);
  const std::vector<Target> all = all_targets(scratch.path());
  if (!asked.replay.empty()) return replay(all, asked.replay);
  std::vector<const Target*> chosen;
  for (const std::string& name : asked.names) {
    chosen.push_back(find(all, name));
    if (chosen.back() == nullptr) return kUsageExit;
  }
  if (asked.names.empty())
    for (const Target& target : all) chosen.push_back(&target);
  if (!asked.list) return fuzz(chosen, asked, arguments[0]);
  for (const Target* target : chosen) std::puts(target->name.c_str());
  return 0;
}

}  // namespace
}  // namespace downpour::fuzz

int main(int count, char** arguments) { return downpour::fuzz::run(count, arguments); }
