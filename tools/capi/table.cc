#include "tools/capi/table.h"

#include <optional>
#include <string>
#include <utility>

#include "shared/base/error_text.h"
#include "tools/capi/errors.h"

namespace downpour::capi {
namespace {

using data::MemoryColumn;
using data::MemoryTable;
using data::NpyType;

/// Parses "<f4"; nothing for other texts.
std::optional<NpyType> type_of(const char* text) {
  const std::string code = text == nullptr ? "" : text;
  if (code.size() != 3 || std::string("<>|=").find(code[0]) == std::string::npos) return {};
  const NpyType type{code[1], uint32_t(code[2] - '0'), code[0] == '>'};
  const bool size_fits = type.bytes == 1                                         ? type.kind != 'f'
                         : type.bytes == 2 || type.bytes == 4 || type.bytes == 8 ? type.kind != 'b'
                                                                                 : false;
  if (std::string("biuf").find(type.kind) == std::string::npos || !size_fits) return {};
  return type;
}

Result<MemoryColumn> column_of(const dp_column& from) {
  const std::string name = from.name == nullptr ? "" : from.name;
  const auto wrong = [&](const std::string& what, const char* hint) {
    return Error{ErrorCode::kBadData, str("column `", printable(name), "`: ", what), "", hint};
  };
  MemoryColumn column{.name = name,
                      .values = static_cast<const char*>(from.values),
                      .stride = from.stride,
                      .width = from.kind == DP_NUMBERS ? from.width : 1,
                      .valid = from.valid,
                      .valid_begin = from.valid_begin,
                      .texts = {from.offsets, from.wide_offsets != 0, from.text},
                      .text_count = from.text_count,
                      .starts = static_cast<const char*>(from.starts),
                      .keys = static_cast<const char*>(from.keys)};
  if (from.kind < DP_NUMBERS || from.kind > DP_PAIRS)
    return wrong(str("its kind is ", from.kind), "use one of DP_NUMBERS to DP_PAIRS");
  column.kind = MemoryColumn::Kind(from.kind);
  const auto read = [&](const char* text, bool integers, NpyType& into) -> Result<void> {
    const auto type = type_of(text);
    if (!type || (integers && !type->is_integer()))
      return wrong(str("its type is `", text == nullptr ? "" : printable(text), "`"),
                   integers ? "use integers, such as \"<i8\"" : "use numbers, such as \"<f4\"");
    into = *type;
    return {};
  };
  if (from.kind != DP_TEXTS) {
    DP_TRY_VOID(read(from.type, from.kind == DP_DICTIONARY, column.type));
  }
  if (from.kind == DP_PAIRS) {
    DP_TRY_VOID(read(from.start_type, true, column.start_type));
    DP_TRY_VOID(read(from.key_type, true, column.key_type));
  }
  const bool texts = from.kind == DP_TEXTS || from.kind == DP_DICTIONARY;
  const bool complete = (from.kind == DP_TEXTS || from.values != nullptr) &&
                        (!texts || from.offsets != nullptr) &&
                        (from.kind != DP_PAIRS || (from.starts != nullptr && from.keys != nullptr));
  if (!complete) return wrong("a pointer that its kind needs is NULL", "see dp_column");
  return column;
}

Result<MemoryTable> table_of(uint64_t rows, const dp_column* columns, size_t count) {
  MemoryTable table{.rows = rows};
  for (size_t i = 0; i < count; ++i) {
    DP_TRY(MemoryColumn column, column_of(columns[i]));
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace

int32_t share(MemoryTable memory, std::unique_ptr<dp_table> owner, dp_table** table) {
  if (auto checked = data::check_table(memory); !checked) return fail(checked.error());
  owner->shared =
      std::make_unique<data::SharedTable>(std::make_shared<const MemoryTable>(std::move(memory)));
  *table = owner.release();
  return 0;
}

}  // namespace downpour::capi

int32_t dp_table_create(uint64_t rows, const dp_column* columns, size_t column_count,
                        dp_table** table) {
  return downpour::capi::guarded([&] {
    auto made = downpour::capi::table_of(rows, columns, column_count);
    if (!made) return downpour::capi::fail(made.error());
    return downpour::capi::share(*std::move(made), std::make_unique<dp_table>(), table);
  });
}

const char* dp_table_name(const dp_table* table) { return table->shared->path().c_str(); }

uint64_t dp_table_rows(const dp_table* table) { return table->shared->table()->rows; }

void dp_table_free(dp_table* table) { delete table; }
