// compile: a job's layers and outputs checked and turned into a Program.
#pragma once

#include "shared/base/result.h"
#include "shared/model/program.h"

namespace downpour::model {

/// Errors: kConfig with `where` = "model.layers[2] (tower)" or "model.outputs[0] (click)", and what
/// to change.
Result<Program> compile(const Job& job);

}  // namespace downpour::model
