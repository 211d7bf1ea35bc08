// Rules for the layers and outputs of a model, as far as they do not need widths. These rules stand
// only here: shared/model/compile.h takes a job that satisfies them.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// Checks names, types, inputs and required keys of the layers and outputs of a complete job.
/// Errors: kConfig; `where` is the key ("model.layers[1].inputs").
Result<void> validate_model(const Job& job);

/// Checks that a model of variables has no layers, preset or options, and a mode that trains it.
Result<void> check_custom(const Job& job);

}  // namespace downpour
