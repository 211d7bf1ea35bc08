// Learning: computes the statistics that transforms leave open, from the training records, before
// training begins.
#pragma once

#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"

namespace downpour::chief {

/// Fills in mean and scale of `standardize`, and min and max of `min_max`, if the job does not give
/// them. Updates the plan's job and hash. If a field has the same ops in the run in the run folder
/// (unless `fresh`), or in the run that a warm start names, it takes the values from there.
/// Otherwise the values come from one or more passes over the training records, except those that
/// are held out, filtered or (if the job allows it) bad. Uses several threads; the result does not
/// depend on their number. Errors: those of reading.
Result<void> learn_statistics(RunPlan& plan, bool fresh);

}  // namespace downpour::chief
