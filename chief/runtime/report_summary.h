// The summary that ends a run on a terminal.
#pragma once

#include <cstdio>
#include <string>

#include "chief/core/events.h"
#include "chief/runtime/start_info.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Prints metrics per epoch next to those of the best constant, the account, throughput, bytes,
/// memory per role, the place of the model, and the next command to type.
void print_summary(const Finish& finish, const Job& job, const StartInfo& start,
                   const std::string& run_dir, const std::string& job_argument, std::FILE* out);

}  // namespace downpour::chief
