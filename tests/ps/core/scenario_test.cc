// Runs tests/scenarios/ps_*.txt. With DP_REGENERATE=1 in the environment it rewrites these files;
// review the diff.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/ps/core/ps_script.h"

namespace downpour::ps {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the script, with every command followed by its current output.
std::string tell(const std::string& story) {
  PsScript script;
  std::string told;
  std::string line;
  std::istringstream in(story);
  while (std::getline(in, line)) {
    if (line.starts_with("  ")) continue;  // an effect: it is generated again
    told += line + "\n";
    if (!line.empty() && line[0] != '#') told += script.run(line);
  }
  return told;
}

TEST_CASE("every ps scenario has the recorded output", "[ps][scenario]") {
  const std::filesystem::path folder =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "scenarios";
  std::vector<std::filesystem::path> stories;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("ps_") && name.ends_with(".txt")) stories.push_back(entry.path());
  }
  std::sort(stories.begin(), stories.end());
  REQUIRE(stories.size() >= 12);
  for (const std::filesystem::path& path : stories) {
    INFO(path.filename().string());
    const std::string story = read_text(path);
    const std::string told = tell(story);
    if (std::getenv("DP_REGENERATE") != nullptr) {
      std::ofstream(path) << told;
    } else {
      CHECK(told == story);
    }
  }
}

}  // namespace
}  // namespace downpour::ps
