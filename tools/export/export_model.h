// Export: writes the variables of a saved model into one file for other programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "tools/export/archive.h"

namespace downpour::tools {

struct Exported {
  std::string checkpoint;          // "3-17"
  std::vector<ArraySpec> arrays;   // as written
  std::vector<std::string> notes;  // newer checkpoints that are damaged
};

/// Writes the model in `run_dir` to `path`: its best checkpoint if the run keeps one
/// (`eval.keep_best`), otherwise its newest. The arrays, without optimizer slots, in this order:
///
/// - a dense variable by its name, for example `tower/0/kernel` [in, out], float32;
/// - a variable of embeddings by its name, [rows, dim], float32, after its `NAME/keys` [rows],
///   uint64. Row i belongs to key i. Keys are not sorted. A key that is not listed has the initial
///   value of the variable;
/// - of each output `OUTPUT/offset` and `OUTPUT/scale` [1], float32: the prediction before the
///   output's function is offset + scale * input.
///
/// The job of the run is stored as `job.toml`. Holds one dense variable and one partition in
/// memory, and reads the checkpoint once for each array. Errors: kNoInput if `run_dir` has no
/// checkpoint; kBadData for a damaged one; those of create_archive().
Result<Exported> export_model(Storage& storage, const std::string& run_dir,
                              const std::string& path);

}  // namespace downpour::tools
