// Export: writes the variables of a saved model into one file for other programs.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "tools/export/saved_model.h"

namespace downpour::tools {

struct ExportRequest {
  std::string run_dir;
  std::string path;           // the file to write
  std::string format;         // "npz", "safetensors", "onnx" or "tsv"; empty: the ending of `path`
  std::string variable = {};  // tsv: the embeddings; may be empty if there is one variable
};

/// Writes the model in `run_dir`: its best checkpoint if the run keeps one (`eval.keep_best`),
/// otherwise its newest. ONNX: see onnx_model.h. TSV: see rows_tsv.h. The other formats have these
/// arrays, without optimizer slots, in this order:
///
/// - a dense variable by its name, for example `tower/0/kernel` [in, out], float32;
/// - a variable of embeddings by its name, [rows, dim], float32, after its `NAME/keys` [rows],
///   uint64. Row i belongs to key i. Keys are not sorted. A key that is not listed has the initial
///   value of the variable;
/// - of each output `OUTPUT/offset` and `OUTPUT/scale` [1], float32: the prediction before the
///   output's function is offset + scale * input.
///
/// The job of the run is stored as `job.toml`. Holds one dense variable and one partition in
/// memory, and reads the checkpoint once for each array. Errors: kUsage for another format;
/// kNoInput if `run_dir` has no checkpoint; kBadData for a damaged one; those of Storage::create().
Result<Exported> export_model(Storage& storage, const ExportRequest& request);

}  // namespace downpour::tools
