// The outline of a job: a short job file for people to edit, which loads back to the same job.
#pragma once

#include <string>

#include "shared/job/job.h"

namespace downpour {

/// Returns a job file for a job that is not complete yet (job_for_file()). It has only the values
/// that differ from the defaults, one line per field, and comments that say what a key does or
/// where its value comes from. If the preset chooses the optimizers, a comment names them.
std::string job_outline(const Job& job);

}  // namespace downpour
