// The fences of the protocol: the profiles of the simulator reach each of them.
#include <set>

#include <catch2/catch.hpp>

#include "tests/support/seeds.h"
#include "tools/sim/profiles.h"
#include "tools/sim/simulator.h"

namespace downpour::sim {
namespace {

TEST_CASE("each fence acts in at least one of a hundred seeds of a profile that lists it",
          "[sim]") {
  for (const Profile& profile : profiles()) {
    const uint64_t seeds = testing::seeds(profile.defences.empty() ? 20 : 100);
    INFO("downpour sim --profile " << profile.name);
    const auto simulator = make_simulator(profile);
    REQUIRE(simulator);
    DefenceCounts runs_with{};
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const Outcome outcome = simulator->run(seed, {});
      INFO("seed " << seed << ": " << outcome.violation);
      REQUIRE(outcome.violation.empty());
      for (size_t d = 0; d < kDefences; ++d) runs_with[d] += outcome.defences[d] > 0 ? 1 : 0;
    }
    if (testing::kSanitized) continue;  // too few seeds
    for (const Defence rare : too_rare(profile, runs_with, seeds)) {
      INFO(kDefenceTexts[size_t(rare)]);
      CHECK(runs_with[size_t(rare)] * 100 >= seeds);
    }
  }
}

TEST_CASE("every fence belongs to exactly one profile", "[sim]") {
  std::multiset<Defence> listed;
  for (const Profile& profile : profiles())
    listed.insert(profile.defences.begin(), profile.defences.end());
  for (size_t d = 0; d < kDefences; ++d) {
    INFO(kDefenceTexts[d]);
    CHECK(listed.count(Defence(d)) == 1);
  }
}

}  // namespace
}  // namespace downpour::sim
