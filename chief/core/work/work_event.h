// WorkEvent: what a report about a shard means for the phases of the job.
#pragma once

#include <variant>

#include "shared/base/result.h"

namespace downpour::chief {

/// A shard has ended, so the pass may have ended.
struct PassAdvanced {};
/// Markers must be sent to all partitions before another shard is leased.
struct MarkersPending {};
/// An Error fails the job; std::monostate means nothing.
using WorkEvent = std::variant<std::monostate, PassAdvanced, MarkersPending, Error>;

}  // namespace downpour::chief
