// Learning: the statistics that a job's transforms leave open, taken from the training records
// before training begins.
#pragma once

#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"

namespace downpour::chief {

/// Fills in mean and scale of `standardize`, min and max of `min_max` where the job does not give
/// them, and with them the plan's job and hash. They come from the run that the folder holds
/// (unless `fresh`) or that a warm start names, where the same field has the same ops there; else
/// from one pass over the training records, without what is held out, filtered or (where the job
/// allows it) bad. Several threads read; the result does not depend on their number. Errors: those
/// of reading.
Result<void> learn_statistics(RunPlan& plan, bool fresh);

}  // namespace downpour::chief
