// Outcome: the result of a simulated run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "chief/core/events.h"
#include "shared/base/defence.h"

namespace downpour::sim {

/// The result of a run.
struct Outcome {
  std::string violation;  // "I1: ..."; empty: no violation
  std::optional<chief::Finish> finish;
  uint64_t hash = 0;  // of all events
  int64_t virtual_ns = 0;
  uint64_t steps = 0;
  std::map<std::string, uint64_t> counts;  // numbers of faults, repeated parts, gaps, ...
  DefenceCounts defences{};                // how often each fence acted
};

}  // namespace downpour::sim
