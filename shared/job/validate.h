// Rules for a job beyond the types and ranges of its keys.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/origins.h"

namespace downpour {

/// Checks what can be checked before the data file is inspected: required keys are present, and
/// keys do not contradict each other. Errors: kConfig with the key's place.
Result<void> validate_given(const Job& job, const Origins& origins);

/// Checks every rule of a complete job. Errors: kConfig; `where` is the key
/// ("model.layers[1].inputs"). located() replaces it by the place in the file.
Result<void> validate(const Job& job);

}  // namespace downpour
