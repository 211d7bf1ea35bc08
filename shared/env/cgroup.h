// Cgroup: what the control groups of this process allow it, in version 2 and in version 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace downpour {

struct CgroupLimits {
  std::optional<double> cpus;           // the smallest quota, in processors
  std::optional<uint64_t> memory_left;  // bytes; the smallest rest of a limit. Files in the page
                                        // cache count as free, because the kernel drops them
};

/// Returns the limits of the groups in /proc/self/cgroup and of the groups around them, as far as
/// they are visible. A container may see only its own group, as the root. `root` is put in front of
/// all paths, for tests.
CgroupLimits cgroup_limits(const std::string& root = "");

}  // namespace downpour
