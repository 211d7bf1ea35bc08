// Rules for the training mode of a job and its keys.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// Checks that the job has the keys of its mode and none of another one. Errors: kConfig; `where`
/// is the key ("train.backups").
Result<void> validate_mode(const Job& job);

/// Checks the rules of a mode that depend on what a preset chooses: the optimizer, the size of a
/// batch and the outputs. Errors: as validate_mode().
Result<void> validate_mode_of_preset(const Job& job);

}  // namespace downpour
