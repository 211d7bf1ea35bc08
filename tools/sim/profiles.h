// Profiles: a job, the faults that it meets, and the fences that these faults must reach.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "shared/base/defence.h"
#include "tools/sim/counter.h"
#include "tools/sim/simulator.h"

namespace downpour::sim {

struct Profile {
  std::string_view name;
  std::string_view says;  // one line for a reader of the report
  bool model = false;     // the model job; else the counter model
  JobSize size;
  std::string_view faults;  // as --faults takes them
  uint32_t inputs = 0;      // input processes
  /// Each of these fences acts in at least one of a hundred seeds.
  std::span<const Defence> defences;
};

/// All profiles, in the order in which a report shows them.
std::span<const Profile> profiles();
/// Null: there is no such profile.
const Profile* find_profile(std::string_view name);
/// The profile's job and faults on the cluster that its job usually has. Errors: a job or a list of
/// faults that can't be read.
Result<SimulatorOptions> options_of(const Profile& profile);
/// The simulator that `--profile` runs. Errors: as Simulator::make().
Result<Simulator> make_simulator(const Profile& profile);

/// The defences of the profile that acted in less than one of a hundred of `seeds` runs, of which
/// `runs_with` counts those in which a defence acted.
std::vector<Defence> too_rare(const Profile& profile, const DefenceCounts& runs_with,
                              uint64_t seeds);

}  // namespace downpour::sim
