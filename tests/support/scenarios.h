// Runs the files of tests/scenarios: commands, each followed by its effects, which are indented.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace downpour::testing {

/// Checks that every scenario whose name starts with `prefix` has the effects that its file says.
/// With DP_REGENERATE=1 in the environment it rewrites the files; review the diff. `Script` has
/// run(command), which returns the effects.
template <typename Script>
void check_scenarios(const std::string& prefix) {
  const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "scenarios";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".txt")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 12);
  for (const auto& path : files) {
    INFO(path.filename());
    std::ifstream in(path);
    std::string expected, got;
    Script script;
    for (std::string line; std::getline(in, line);) {
      expected += line + "\n";
      if (line.starts_with("  ")) continue;  // an effect: it is generated again
      got += line + "\n";
      if (!line.empty() && line[0] != '#') got += script.run(line);
    }
    if (std::getenv("DP_REGENERATE") != nullptr) {
      std::ofstream(path) << got;
    } else {
      CHECK(got == expected);
    }
  }
}

}  // namespace downpour::testing
