// Effects: what the chief's core asks of its shell. A header of its own, because only the core and
// the shell need the bodies of messages.
#pragma once

#include <variant>
#include <vector>

#include "chief/core/events.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

struct Send {
  PeerKey peer{};
  wire::Message message;
};

using Effect = std::variant<Send, PublishManifest, FindOlder, AppendEvent, ProgressSnapshot,
                            EpochDone, EvalDone, CheckpointDone, Notice, PredictionBatch, Finish>;
/// The shell must run effects in this order.
using Effects = std::vector<Effect>;

}  // namespace downpour::chief
