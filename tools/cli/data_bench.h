// `downpour data bench`: measures only the input, with the cost of each stage.
#pragma once

#include <ostream>

#include "shared/base/result.h"
#include "tools/data/look.h"

namespace downpour::tools {

/// Reads the training data of a job on one thread, and prints the best of `rounds` rounds. The
/// stages are: find the records; parse and batch them in file order; the same in training order.
/// If `set` names data files and no job, it uses the job that `downpour train` would choose.
/// Errors: those of plan_run() and of the readers.
Result<void> bench_data(const DataSet& set, uint32_t rounds, const LookOptions& options,
                        std::ostream& out);

}  // namespace downpour::tools
