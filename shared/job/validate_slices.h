// Rules for eval.slices and eval.group_by.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

// Limits of a job with slices. More are an error.
constexpr size_t kSlicesMax = 16;
constexpr uint64_t kGroupFloatsMax = 262'144;  // of a message; limits the batch with groups
constexpr size_t kSliceRowsMax = 1024;         // rows of all slices, times the outputs of the model

/// Checks the slices and the groups of a complete job. Errors: kConfig; `where` is the key
/// ("eval.slices[1].field").
Result<void> check_slices(const Job& job);

}  // namespace downpour
