// The build version, which must be the same in every process of a job.
#pragma once

namespace downpour {

inline constexpr const char* kBuildVersion = "0.1.0";

}  // namespace downpour
