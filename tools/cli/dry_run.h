// --dry-run: prints the effective job with the origin of each value, the shards, and the memory per
// ps.
#pragma once

#include <cstdio>
#include <string>

#include "chief/runtime/run_setup.h"
#include "shared/job/job_file.h"

namespace downpour::tools {

void print_dry_run(const chief::RunPlan& plan, const Origins& origins, const std::string& cluster,
                   std::FILE* out);

}  // namespace downpour::tools
