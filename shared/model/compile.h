// compile: checks a job's layers and outputs and turns them into a Program.
#pragma once

#include "shared/base/result.h"
#include "shared/model/program.h"

namespace downpour::model {

/// Compiles the model of `job`. Errors: kConfig. `where` is "model.layers[2] (tower)" or
/// "model.outputs[0] (click)"; the hint says what to change.
Result<Program> compile(const Job& job);

}  // namespace downpour::model
