// The answer of a ps core to the chief's question how far an epoch is.
#pragma once

#include <optional>

#include "ps/core/events.h"
#include "ps/core/partition.h"
#include "shared/base/result.h"
#include "shared/wire/control_messages.h"

namespace downpour::ps {

/// Returns what the owned partitions have applied of the epoch. `view` is the newest view, and
/// `failure` the error that ends the job. The reply fits a message.
wire::StatusReply status_reply(const wire::StatusRequest& status, const Partitions& partitions,
                               const PsLimits& limits, ViewId view,
                               const std::optional<Error>& failure);

}  // namespace downpour::ps
