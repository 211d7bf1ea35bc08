// Profiles: each is a job, the faults of its run, and the fences that these faults must reach.
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
  std::string_view says;  // description in the report, one line
  bool model = false;     // true: the model job; false: the counter model
  JobSize size;
  std::string_view faults;  // value of --faults
  uint32_t inputs = 0;      // number of input processes
  /// The fences that must act in at least 1 % of the seeds.
  std::span<const Defence> defences;
};

/// Returns all profiles, in the order of a report.
std::span<const Profile> profiles();
/// Returns the profile with that name; null if there is none.
const Profile* find_profile(std::string_view name);
/// Returns the profile's job and faults on the default cluster of the job. Errors: the job or the
/// list of faults is invalid.
Result<SimulatorOptions> options_of(const Profile& profile);
/// Makes the simulator that `--profile` runs. Errors: as Simulator::make().
Result<Simulator> make_simulator(const Profile& profile);

/// Returns the fences of the profile that acted in less than 1 % of `seeds` runs. `runs_with`
/// counts for each fence the runs in which it acted.
std::vector<Defence> too_rare(const Profile& profile, const DefenceCounts& runs_with,
                              uint64_t seeds);

}  // namespace downpour::sim
