// downpour data bench: the input alone, with what each of its stages costs.
#pragma once

#include <ostream>

#include "shared/base/result.h"
#include "tools/data/look.h"

namespace downpour::tools {

/// Reads what a job trains on, the best of `rounds`, on one thread: its records found, then parsed
/// and batched in the order of the files, then in the order of a training. Of files the job that
/// `downpour train` would choose. Errors: as plan_run() and the readers'.
Result<void> bench_data(const DataSet& set, uint32_t rounds, const LookOptions& options,
                        std::ostream& out);

}  // namespace downpour::tools
