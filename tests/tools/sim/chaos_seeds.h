// check_chaos: runs many seeds of a simulator with all kinds of faults.
#pragma once

#include <initializer_list>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/seeds.h"
#include "tools/sim/simulator.h"

namespace downpour::sim {

/// Checks that no seed violates an invariant, and that each of the events occurs in 1 % of the
/// seeds, unless a sanitizer leaves too few of them. `job` is the option that selects the job.
inline void check_chaos(const Simulator& simulator, uint64_t seeds, const char* job,
                        std::initializer_list<const char*> events) {
  std::map<std::string, uint64_t> seeds_with;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Outcome outcome = simulator.run(seed, {});
    INFO("downpour sim " << job << " --faults chaos --seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    for (const auto& [name, n] : outcome.counts) ++seeds_with[name];
  }
  if (testing::kSanitized) return;  // too few seeds
  for (const char* name : events) {
    INFO(name);
    CHECK(seeds_with[name] >= seeds / 100);
  }
}

}  // namespace downpour::sim
