// Tables of Arrow's C data interface (https://arrow.apache.org/docs/format/CDataInterface.html).
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error_text.h"
#include "tools/capi/errors.h"
#include "tools/capi/table.h"

// The structs as the specification gives them.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

namespace downpour::capi {
namespace {

using data::MemoryColumn;
using data::MemoryTable;
using data::NpyType;

struct NumberFormat {
  char format;
  NpyType type;
};
constexpr std::array kNumberFormats = {
    NumberFormat{'c', {'i', 1}}, NumberFormat{'C', {'u', 1}}, NumberFormat{'s', {'i', 2}},
    NumberFormat{'S', {'u', 2}}, NumberFormat{'i', {'i', 4}}, NumberFormat{'I', {'u', 4}},
    NumberFormat{'l', {'i', 8}}, NumberFormat{'L', {'u', 8}}, NumberFormat{'e', {'f', 2}},
    NumberFormat{'f', {'f', 4}}, NumberFormat{'g', {'f', 8}},
};

const NumberFormat* find_number(std::string_view format) {
  for (const NumberFormat& known : kNumberFormats)
    if (format.size() == 1 && format[0] == known.format) return &known;
  return nullptr;
}

bool is_text(std::string_view format) { return format == "u" || format == "U"; }

/// Turns the bits of a boolean column into bytes, which `table` owns.
const char* expand_bits(const ArrowArray& array, dp_table& table) {
  auto bytes = std::make_unique<uint8_t[]>(size_t(array.length) + 1);
  const auto* const bits = static_cast<const uint8_t*>(array.buffers[1]);
  for (int64_t i = 0; i < array.length; ++i) {
    const auto bit = uint64_t(array.offset + i);
    bytes[size_t(i)] = bits[bit / 8] >> (bit % 8) & 1;
  }
  table.owned.push_back(std::move(bytes));
  return reinterpret_cast<const char*>(table.owned.back().get());
}

void set_texts(const ArrowArray& array, std::string_view format, MemoryColumn& column) {
  const bool wide = format == "U";
  const size_t skipped = size_t(array.offset) * (wide ? 8 : 4);
  column.texts = {static_cast<const char*>(array.buffers[1]) + skipped, wide,
                  static_cast<const char*>(array.buffers[2])};
}

Result<MemoryColumn> column_of(const ArrowSchema& schema, const ArrowArray& array,
                               dp_table& table) {
  const std::string_view format = schema.format;
  MemoryColumn column{.name = schema.name == nullptr ? "" : schema.name};
  column.valid = static_cast<const uint8_t*>(array.n_buffers > 0 ? array.buffers[0] : nullptr);
  column.valid_begin = uint64_t(array.offset);
  const NumberFormat* const number = find_number(format);
  if (number != nullptr) {
    column.type = number->type;
    column.stride = column.type.bytes;
    column.values = static_cast<const char*>(array.buffers[1]) + array.offset * column.stride;
  }
  if (format == "b") {
    column.type = {'b', 1};
    column.stride = 1;
    column.values = expand_bits(array, table);
  } else if (is_text(format)) {
    column.kind = MemoryColumn::Kind::kTexts;
    set_texts(array, format, column);
  } else if (schema.dictionary != nullptr && number != nullptr && array.dictionary != nullptr &&
             is_text(schema.dictionary->format)) {
    column.kind = MemoryColumn::Kind::kDictionary;
    column.text_count = uint64_t(array.dictionary->length);
    set_texts(*array.dictionary, schema.dictionary->format, column);
  } else if (number == nullptr || schema.dictionary != nullptr) {
    return Error{ErrorCode::kBadData,
                 str("column `", printable(column.name), "` has the Arrow format `",
                     printable(schema.format), "`",
                     schema.dictionary == nullptr ? ""
                                                  : str(" with a dictionary of `",
                                                        printable(schema.dictionary->format), "`"),
                     ", which is not supported"),
                 "",
                 "leave the column out, or cast it to a number or a text; numbers, booleans, texts "
                 "and dictionaries of texts are supported"};
  }
  return column;
}

/// Returns the first row that is null as a whole; none if there is no such row.
std::optional<int64_t> null_row(const ArrowArray& array) {
  const auto* const bits =
      static_cast<const uint8_t*>(array.n_buffers > 0 ? array.buffers[0] : nullptr);
  for (int64_t i = 0; bits != nullptr && array.null_count != 0 && i < array.length; ++i) {
    if ((bits[i / 8] >> (i % 8) & 1) == 0) return i;
  }
  return std::nullopt;
}

Result<MemoryTable> table_of(const ArrowSchema& schema, const ArrowArray& array, dp_table& table) {
  if (schema.release == nullptr || array.release == nullptr) {
    return Error{ErrorCode::kBadData,
                 "the Arrow structs have been released, or another call has taken them", "",
                 "export the record batch anew"};
  }
  if (std::string_view(schema.format) != "+s" || array.offset != 0) {
    return Error{ErrorCode::kBadData,
                 str("the Arrow array has the format `", printable(schema.format),
                     "`, but a table is a struct array that begins at row 0"),
                 "", "export a record batch"};
  }
  if (const auto row = null_row(array)) {
    return Error{ErrorCode::kBadData, str("row ", *row, " of the Arrow array is null as a whole"),
                 "", "leave such rows out, or export a record batch, whose columns have the nulls"};
  }
  MemoryTable memory{.rows = uint64_t(array.length)};
  for (int64_t i = 0; i < schema.n_children; ++i) {
    if (array.children[i]->length < array.length) {
      return Error{ErrorCode::kBadData,
                   str("column ", i, " of the Arrow array has ", array.children[i]->length,
                       " rows of ", array.length),
                   "", "export a record batch, whose columns have the same length"};
    }
    DP_TRY(MemoryColumn column, column_of(*schema.children[i], *array.children[i], table));
    memory.columns.push_back(std::move(column));
  }
  return memory;
}

}  // namespace
}  // namespace downpour::capi

int32_t dp_table_from_arrow(ArrowSchema* schema, ArrowArray* array, dp_table** table) {
  auto owner = std::make_unique<dp_table>();
  owner->release = [taken_schema = *schema, taken_array = *array]() mutable {
    if (taken_array.release != nullptr) taken_array.release(&taken_array);
    if (taken_schema.release != nullptr) taken_schema.release(&taken_schema);
  };
  const ArrowSchema schema_copy = *schema;
  const ArrowArray array_copy = *array;
  schema->release = nullptr;
  array->release = nullptr;
  return downpour::capi::guarded([&]() -> int32_t {
    auto made = downpour::capi::table_of(schema_copy, array_copy, *owner);
    if (!made) return downpour::capi::fail(made.error());
    return downpour::capi::share(*std::move(made), std::move(owner), table);
  });
}
