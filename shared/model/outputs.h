// Outputs: checks of a model's outputs that need widths.
#pragma once

#include <cstdint>

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::model {

/// Returns the columns of the predictions that a program gives for an output of a model without
/// layers. `target_width`: columns of the output's target.
uint64_t prediction_width(const Job& job, const OutputSpec& spec, uint64_t target_width);

/// Checks that an output of `width` columns fits its loss, its target and its metrics. Errors:
/// kConfig, without a place.
Result<void> check_output(const Job& job, const OutputSpec& spec, uint32_t width,
                          uint64_t target_width);

}  // namespace downpour::model
