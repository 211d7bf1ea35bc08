// Table columns: the names of the columns of CSV, TSV and Criteo files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/base/str.h"
#include "shared/data/values/field_context.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Returns the columns of a table file: the declared ones, those of the format, or those of the
/// header. Errors: kConfig if no names are known; kBadData for a bad header.
Result<std::vector<std::string>> columns_of(const DataSpec& data, const std::string& path);
/// Returns the columns that the job or the format declares. Error: kConfig if neither does.
Result<std::vector<std::string>> declared_columns(const DataSpec& data);

/// Returns the columns of one of the files of a plan. Leaves out the targets' columns if they are
/// optional and the file lacks them. Errors: those of columns_of().
Result<std::vector<std::string>> columns_for(const FieldContext& context,
                                             const plan::FileInfo& info);

/// Returns the name of a column without a name in the job or the header. `index` starts at 0.
inline std::string unnamed_column(size_t index) { return str("c", index + 1); }

}  // namespace downpour::data
