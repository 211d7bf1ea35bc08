// Exports the dense part of a saved model as an ONNX model.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "tools/export/saved_model.h"

namespace downpour::tools {

/// Writes the operations of the model in `run_dir` to `path`: everything after the rows of the
/// embeddings. docs/onnx.md describes the inputs and outputs. Exported::arrays has the inputs, then
/// the outputs. Errors: those of SavedModel::open(); kUnsupported if the dense variables exceed the
/// size of such a file; those of Storage::create().
Result<Exported> export_onnx(Storage& storage, const std::string& run_dir, const std::string& path);

}  // namespace downpour::tools
