// The roles of a job on one thread.
#pragma once

#include <cstdint>

#include "chief/core/events.h"
#include "chief/runtime/chief_node.h"
#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"
#include "shared/env/storage.h"

namespace downpour::tools {

/// Runs the chief, one ps and one worker on a reactor of the calling thread until the job ends. The
/// worker computes with `threads` threads. Sets `options.endpoint`. Returns how the job
/// has ended, also if it has failed. Errors: a role could not start.
Result<chief::Finish> run_roles(Storage& storage, const chief::RunPlan& plan,
                                chief::ChiefConfig config, chief::ChiefOptions options,
                                uint32_t threads);

}  // namespace downpour::tools
