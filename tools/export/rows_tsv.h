// Exports the rows of an embedding as lines of text.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "tools/export/saved_model.h"

namespace downpour::tools {

/// Writes the rows of `variable` of the model in `run_dir` to `path`: a line of names, then a line
/// for each row, with tabs between the cells. The cells are the key, the word of the key in the
/// vocabulary of each field that has one, and the weights. `variable` may be empty if the model has
/// one variable of embeddings. A tab, a line break or a backslash in a word is escaped: \t, \n, \\.
/// Errors: kUsage names the variables if `variable` is none of them; those of SavedModel::open(),
/// of reading a vocabulary and of Storage::create().
Result<Exported> export_rows(Storage& storage, const std::string& run_dir, const std::string& path,
                             const std::string& variable);

}  // namespace downpour::tools
