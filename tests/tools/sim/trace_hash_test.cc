// The stored trace hashes of simulated runs: a change that affects no message and no time keeps
// all of them. With DP_REGENERATE=1 in the environment this test rewrites the file; review the
// diff. A new field of a message, a new key of the job or another version changes every hash.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/seeds.h"
#include "tests/tools/sim/simulator_of.h"

namespace downpour::sim {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChaosSeeds = 200;
constexpr uint64_t kProfileSeeds = 10;  // of each other profile
constexpr uint64_t kMutantSeeds = 5;    // of each list of faults that mutants name

const fs::path kTests = fs::path(__FILE__).parent_path().parent_path().parent_path();

/// A simulation by the options of `downpour sim`, which are also its name in the file.
struct Plan {
  std::string options;
  uint64_t seeds = 0;
};

/// Returns the faults and options by which mutants are caught: the rest of each line `Faults:`.
std::set<std::string> plans_of_mutants() {
  constexpr std::string_view kHead = "Faults: ";
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(kTests / "mutants")) {
    std::ifstream in(entry.path());
    std::string line;
    for (int n = 0; n < 2 && std::getline(in, line); ++n)
      if (line.starts_with(kHead)) found.insert(line.substr(kHead.size()));
  }
  return found;
}

/// Leaves out the model job and means of replicas: their weights, which messages carry, depend on
/// the instruction set. The weights of the counter are integers.
std::vector<Plan> all_plans() {
  std::vector<Plan> plans;
  for (const Profile& profile : profiles()) {
    if (profile.model || profile.size.sync_every > 0 || profile.size.whole_epochs) continue;
    plans.push_back(
        {str("--profile ", profile.name), profile.name == "chaos" ? kChaosSeeds : kProfileSeeds});
  }
  for (const std::string& options : plans_of_mutants())
    if (options != "chaos" && options.find("--model") == std::string::npos)
      plans.push_back({"--faults " + options, kMutantSeeds});
  return plans;
}

Simulator simulator_of_options(const std::string& options) {
  std::istringstream in(options);
  std::string option;
  std::string faults;
  Profile profile;
  std::optional<int64_t> batch_ns;
  while (in >> option) {
    if (option == "--profile") {
      std::string name;
      in >> name;
      const Profile* const known = find_profile(name);
      REQUIRE(known != nullptr);
      auto simulator = make_simulator(*known);
      REQUIRE(simulator);
      return std::move(*simulator);
    }
    if (option == "--faults") {
      in >> faults;
    } else if (option == "--inputs") {
      in >> profile.inputs;
    } else if (option == "--batch-ms") {
      int64_t ms = 0;
      in >> ms;
      batch_ns = ms * kMillisecond;
    } else {
      FAIL("this test does not know the option " << option);
    }
  }
  profile.faults = faults;
  return simulator_of(profile, [&](SimulatorOptions& o) { o.batch_ns = batch_ns; });
}

/// Returns the trace hashes of seeds 1..seeds.
std::vector<std::string> hashes_of(const Plan& plan, uint64_t seeds) {
  const Simulator simulator = simulator_of_options(plan.options);
  std::vector<std::string> hashes;
  for (uint64_t seed = 1; seed <= seeds; ++seed)
    hashes.push_back(hex(simulator.run(seed, {}).hash));
  return hashes;
}

/// The hashes of seeds 1, 2, ... of each plan, by the plan's options.
using Hashes = std::map<std::string, std::vector<std::string>>;

Hashes read_hashes(const fs::path& path) {
  Hashes hashes;
  std::ifstream in(path);
  std::string line;
  std::vector<std::string>* of_plan = nullptr;
  while (std::getline(in, line)) {
    if (line.starts_with("downpour sim ")) {
      of_plan = &hashes[line.substr(std::string_view("downpour sim ").size())];
    } else if (of_plan != nullptr) {
      of_plan->push_back(line);
    }
  }
  return hashes;
}

void write_hashes(const fs::path& path, const std::vector<Plan>& plans, const Hashes& hashes) {
  std::ofstream out(path);
  for (const Plan& plan : plans) {
    out << "downpour sim " << plan.options << '\n';
    for (const std::string& hash : hashes.at(plan.options)) out << hash << '\n';
  }
}

TEST_CASE("every simulated run has the stored trace hash", "[sim]") {
  const fs::path path = kTests / "golden" / "sim" / "trace_hashes.txt";
  const std::vector<Plan> plans = all_plans();
  if (std::getenv("DP_REGENERATE") != nullptr) {
    Hashes hashes;
    for (const Plan& plan : plans) hashes[plan.options] = hashes_of(plan, plan.seeds);
    return write_hashes(path, plans, hashes);
  }
  Hashes stored = read_hashes(path);
  CHECK(stored.size() == plans.size());
  for (const Plan& plan : plans) {
    INFO("downpour sim " << plan.options);
    std::vector<std::string>& expected = stored[plan.options];
    CHECK(expected.size() == plan.seeds);
    const std::vector<std::string> hashes = hashes_of(plan, testing::seeds(plan.seeds));
    expected.resize(hashes.size());
    std::vector<size_t> other_seeds;
    for (size_t i = 0; i < hashes.size(); ++i)
      if (hashes[i] != expected[i]) other_seeds.push_back(i + 1);
    CHECK(other_seeds == std::vector<size_t>{});
  }
}

}  // namespace
}  // namespace downpour::sim
