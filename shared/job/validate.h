// Rules that a job must keep beyond the types and ranges of its keys.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/job_file.h"

namespace downpour {

/// What can be said of a job before the data file was looked at: required keys are there, keys do
/// not contradict each other. Errors: kConfig with the key's place.
Result<void> validate_given(const Job& job, const Origins& origins);

/// Every rule of a complete job. Errors: kConfig with where = the key ("model.layers[1].inputs");
/// located() turns it into the place in the file.
Result<void> validate(const Job& job);

}  // namespace downpour
