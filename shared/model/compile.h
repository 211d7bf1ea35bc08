// compile: turns a job's layers and outputs into a Program.
#pragma once

#include "shared/base/result.h"
#include "shared/model/program.h"

namespace downpour::model {

/// Compiles the model of a job that validate_model() accepts. Errors: kConfig, for example if
/// widths do not match or are too large, or if nothing reads a layer. `where` is "model.layers[2]
/// (tower)" or "model.outputs[0] (click)".
Result<Program> compile(const Job& job);

}  // namespace downpour::model
