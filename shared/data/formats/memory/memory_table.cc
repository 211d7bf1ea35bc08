#include "shared/data/formats/memory/memory_table.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <type_traits>

#include "shared/base/error_text.h"
#include "shared/base/hash.h"
#include "shared/base/object_scheme.h"
#include "shared/base/str.h"
#include "shared/data/formats/numpy/array_elements.h"

namespace downpour::data {
namespace {

/// The tables of this process, by name.
struct Registry {
  std::mutex mutex;
  uint64_t last = 0;
  std::map<std::string, std::shared_ptr<const MemoryTable>, std::less<>> tables;
};

Registry& registry() {
  static Registry all;
  return all;
}

/// Returns an integer, or INT64_MAX for one that is larger, so that it is never negative.
int64_t integer_at(const char* at, NpyType type) {
  return visit_npy_type(type, [&]<typename T, bool kSwap>() {
    const auto value = element_value<T, kSwap>(at);
    if constexpr (std::is_same_v<T, uint64_t>) return int64_t(std::min<uint64_t>(value, INT64_MAX));
    return int64_t(value);
  });
}

Error wrong(const MemoryColumn& column, const std::string& what, const std::string& hint) {
  return Error{ErrorCode::kBadData, str("column `", printable(column.name), "`: ", what), "", hint};
}

Result<void> check_texts(const MemoryColumn& column, uint64_t count) {
  const auto check = [&](const auto* offsets) -> Result<void> {
    for (uint64_t i = 0; i < count; ++i) {
      if (offsets[i] >= 0 && offsets[i] <= offsets[i + 1]) continue;
      return wrong(column, str("the text of row ", i, " ends before it begins"),
                   "offsets must not decrease");
    }
    return {};
  };
  return column.texts.wide ? check(static_cast<const int64_t*>(column.texts.offsets))
                           : check(static_cast<const int32_t*>(column.texts.offsets));
}

Result<void> check_column(const MemoryColumn& column, uint64_t rows) {
  switch (column.kind) {
    case MemoryColumn::Kind::kNumbers:
      if (column.width > 0) return {};
      return wrong(column, "its rows have no elements", "give at least one number in each row");
    case MemoryColumn::Kind::kTexts:
      return check_texts(column, rows);
    case MemoryColumn::Kind::kDictionary:
      DP_TRY_VOID(check_texts(column, column.text_count));
      for (uint64_t i = 0; i < rows; ++i) {
        if (!column.has_value(i)) continue;
        const int64_t index = integer_at(column.values + int64_t(i) * column.stride, column.type);
        if (index < int64_t(column.text_count)) continue;
        return wrong(column,
                     str("row ", i, " has the index ", index, " of ", column.text_count, " texts"),
                     "an index must be below the number of texts; a negative one is missing");
      }
      return {};
    case MemoryColumn::Kind::kPairs:
      for (uint64_t i = 0; i < rows; ++i) {
        if (int64_t(column.pair_begin(i)) < 0) {
          return wrong(column, str("the start of row ", i, " is ", int64_t(column.pair_begin(i))),
                       "a start is the number of pairs in the rows before, 0 or more");
        }
        if (int64_t(column.pair_begin(i)) <= int64_t(column.pair_begin(i + 1))) continue;
        return wrong(column, str("the pairs of row ", i, " end before they begin"),
                     "the starts of the rows must not decrease");
      }
      for (uint64_t i = column.pair_begin(0); i < column.pair_begin(rows); ++i) {
        if (integer_at(column.keys + i * column.key_type.bytes, column.key_type) >= 0) continue;
        return wrong(column, str("the key of pair ", i, " is negative"), "keys must be 0 or more");
      }
      return {};
  }
  return {};
}

}  // namespace

uint64_t MemoryColumn::pair_begin(uint64_t row) const {
  return uint64_t(integer_at(starts + row * start_type.bytes, start_type));
}

uint64_t MemoryColumn::row_bytes(uint64_t rows) const {
  constexpr uint64_t kTextBytes = 16;
  switch (kind) {
    case Kind::kNumbers:
      return width * type.bytes;
    case Kind::kTexts:
      return kTextBytes;
    case Kind::kDictionary:
      return type.bytes;
    case Kind::kPairs:
      return rows == 0 ? 0
                       : (pair_begin(rows) - pair_begin(0)) * (key_type.bytes + type.bytes) / rows;
  }
  return 0;
}

const MemoryColumn* MemoryTable::find(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &MemoryColumn::name);
  return found == columns.end() ? nullptr : &*found;
}

uint64_t MemoryTable::row_bytes() const {
  uint64_t bytes = 0;
  for (const MemoryColumn& column : columns) bytes += column.row_bytes(rows);
  return std::max<uint64_t>(bytes, 1);
}

Result<void> check_table(const MemoryTable& table) {
  if (table.rows == 0 || table.columns.empty()) {
    return Error{ErrorCode::kBadData,
                 str("the data have ", table.rows, " rows and ", table.columns.size(), " columns"),
                 "", "give at least one row and one column"};
  }
  constexpr uint64_t kRowsMax = uint64_t{1} << 47;  // bytes that a process can address
  if (table.rows > kRowsMax) {
    return Error{ErrorCode::kBadData, str("the data have ", table.rows, " rows"), "",
                 "give the number of rows that are in memory"};
  }
  for (const MemoryColumn& column : table.columns) {
    if (column.name.empty()) return wrong(column, "has no name", "name every column");
    if (table.find(column.name) != &column)
      return wrong(column, "two columns have this name", "give each column a unique name");
    DP_TRY_VOID(check_column(column, table.rows));
  }
  return {};
}

SharedTable::SharedTable(std::shared_ptr<const MemoryTable> table) : table_(std::move(table)) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  path_ = str(kMemoryScheme, ++all.last);
  all.tables.emplace(path_, table_);
}

SharedTable::~SharedTable() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.tables.erase(path_);
}

Result<plan::FileInfo> look_at_table(const std::string& path) {
  DP_TRY(const auto table, find_table(path));
  plan::FileInfo info{.path = path, .bytes = table->rows * table->row_bytes()};
  info.fingerprint = table->rows;
  for (const MemoryColumn& column : table->columns)
    info.fingerprint = hash_combine(info.fingerprint, hash_string(column.name));
  return info;
}

Result<std::shared_ptr<const MemoryTable>> find_table(const std::string& path) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.tables.find(path);
  if (found != all.tables.end()) return found->second;
  return Error{
      ErrorCode::kNoInput, str("this process has no table in memory named ", path), path,
      "name a file, or train with the Python package or the C API, which make such tables"};
}

}  // namespace downpour::data
