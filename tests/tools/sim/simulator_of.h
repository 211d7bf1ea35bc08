// simulator_of: makes the simulator of a built-in job.
#pragma once

#include <functional>

#include <catch2/catch.hpp>

#include "tools/sim/profiles.h"
#include "tools/sim/simulator.h"

namespace downpour::sim {

/// Returns a simulator of the profile's job, with its size and faults, on its usual cluster.
/// `change` can edit the options before the simulator is made.
inline Simulator simulator_of(const Profile& profile,
                              const std::function<void(SimulatorOptions&)>& change = {}) {
  auto options = options_of(profile);
  INFO((options ? "" : options.error().what));
  REQUIRE(options);
  if (change) change(*options);
  auto simulator = Simulator::make(std::move(*options));
  INFO((simulator ? "" : simulator.error().what));
  REQUIRE(simulator);
  return std::move(*simulator);
}

}  // namespace downpour::sim
