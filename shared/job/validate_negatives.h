// Rules for data.negatives, and for the losses that need it.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/job/losses.h"

namespace downpour {

constexpr uint64_t kRowsMax = uint64_t{1} << 24;  // of a batch with its negatives

/// Returns the error of a job that has no negatives, and a loss that compares records with them.
Error no_negatives(const LossInfo& loss, std::string where);

/// Checks the negatives of a complete job. Errors: kConfig; `where` is the key
/// ("data.negatives.fields").
Result<void> check_negatives(const Job& job);

}  // namespace downpour
