// The version that every process of a job must share.
#pragma once

namespace downpour {

inline constexpr const char* kBuildVersion = "0.1.0";

}  // namespace downpour
