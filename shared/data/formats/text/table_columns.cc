#include "shared/data/formats/text/table_columns.h"

#include <algorithm>
#include <utility>

#include "shared/base/names.h"
#include "shared/base/str.h"
#include "shared/data/records/delimited.h"
#include "shared/data/records/preamble_cache.h"
#include "shared/data/values/declared_fields.h"
#include "shared/job/formats.h"

namespace downpour::data {

Result<std::vector<std::string>> declared_columns(const DataSpec& data) {
  if (!data.columns.empty()) return data.columns;
  if (std::vector<std::string> names = default_columns(data.format); !names.empty()) return names;
  return Error{ErrorCode::kConfig, "the names of the columns are not known", "data.columns",
               data.header ? "list the names in data.columns: a header is not read where a program "
                             "makes the records"
                           : "list the names in data.columns, or set data.header = true if the "
                             "first line of each file is a header"};
}

namespace {

/// Splits `line`, the first line after the skipped ones, into cells.
Result<std::vector<std::string>> first_cells(const DataSpec& data, const std::string& line,
                                             const std::string& path) {
  DP_TRY(const char delimiter, delimiter_of(data));
  std::vector<std::string_view> cells(size_t(std::count(line.begin(), line.end(), delimiter)) + 1);
  size_t count = 0;
  std::string store;
  if (!split_line(line, delimiter, traits_of(data.format).quotes, cells, count, store)) {
    return Error{ErrorCode::kBadData,
                 str("invalid quoting in the ", data.header ? "header" : "first line", ": \"",
                     shown(line), "\""),
                 str(path, ":", data.skip_lines + 1), "close its quotes"};
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.emplace_back(trimmed(cells[i]));
  return texts;
}

/// Returns the names in a header. A column without a name gets one by its position.
Result<std::vector<std::string>> header_names(const DataSpec& data, const std::string& header,
                                              const std::string& path) {
  DP_TRY(std::vector<std::string> names, first_cells(data, header, path));
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = unnamed_column(i);
  const std::string* const repeated = first_repeated(names);
  if (repeated == nullptr) return names;
  return Error{ErrorCode::kBadData, str("the header has the column `", shown(*repeated), "` twice"),
               str(path, ":", data.skip_lines + 1),
               "give each column a unique name; or list the names in data.columns, set data.header "
               "= false and raise data.skip_lines by 1"};
}

/// Returns the columns of a file with that preamble.
Result<std::vector<std::string>> columns_after(const DataSpec& data, const Preamble& preamble,
                                               const std::string& path) {
  if (!data.header) return declared_columns(data);
  if (!trimmed(preamble.header).empty()) return header_names(data, preamble.header, path);
  constexpr uint64_t kMarkBytes = 3;  // of the byte order mark
  const bool nothing =
      data.skip_lines == 0 && (preamble.bytes == 0 || preamble.bytes == kMarkBytes);
  if (nothing && !data.columns.empty()) return data.columns;  // the file has no records
  return Error{ErrorCode::kBadData, "the header names no column",
               str(path, ":", data.skip_lines + 1),
               "the header must name the columns; or list the names in data.columns, with "
               "data.header = false"};
}

/// Returns `names` without the targets' columns if the first record of a file without header has
/// exactly that many cells fewer.
Result<std::vector<std::string>> present_columns(const FieldContext& context,
                                                 std::vector<std::string> names,
                                                 const std::string& path) {
  std::vector<std::string> others = names;
  for (const TargetRule& rule : context.targets) {
    DP_TRY(const FieldSpec field, resolve_field(context, rule.field));
    std::erase(others, field.column.empty() ? field.name : field.column);
  }
  DP_TRY(const Preamble first, read_preamble(path, context.data, /*header=*/true));
  DP_TRY(const std::vector<std::string> cells, first_cells(context.data, first.header, path));
  return cells.size() == others.size() ? std::move(others) : std::move(names);
}

}  // namespace

Result<std::vector<std::string>> columns_for(const FieldContext& context,
                                             const plan::FileInfo& info) {
  const DataSpec& data = context.data;
  if (info.is_program() || !data.program.empty()) return declared_columns(data);
  if (!data.header && context.targets_optional) {
    DP_TRY(std::vector<std::string> names, declared_columns(data));
    return present_columns(context, std::move(names), info.path);
  }
  DP_TRY(const Preamble preamble, context.preambles->get(data, info));
  return columns_after(data, preamble, info.path);
}

Result<std::vector<std::string>> columns_of(const DataSpec& data, const std::string& path) {
  if (!data.header) return declared_columns(data);
  DP_TRY(const Preamble preamble, read_preamble(path, data, /*header=*/true));
  return columns_after(data, preamble, path);
}

}  // namespace downpour::data
