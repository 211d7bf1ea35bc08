// ArrayParser: parses one row of several arrays into columns, wherever the window stores the rows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/formats/parser.h"

namespace downpour::data {

/// Where the rows of a window are stored. A window source passes it to its parser.
struct RowBlocks {
  const char* text = nullptr;       // Window::text; row i is at text + i
  std::vector<const char*> blocks;  // row 0 of each array
  std::vector<size_t> row_bytes;
  std::vector<size_t> strides;  // distance between two rows; empty: row_bytes

  /// Describes rows of all arrays that are stored side by side at `rows`. A row's RecordRef::begin
  /// is then its first byte in the text (strides of 1).
  void lie_in(const char* rows) {
    text = rows;
    blocks.resize(row_bytes.size());
    for (size_t i = 0; i < blocks.size(); rows += row_bytes[i++]) blocks[i] = rows;
  }
};

/// The arrays that fields can read. `there` lists them; a single array has an empty name. `name_of`
/// returns the name of the array that a field reads. An empty `there` means that there are no rows
/// to read.
struct ArrayFields {
  std::string source;
  std::vector<SourceArray> there;
  std::function<std::string(const FieldSpec&)> name_of;
};
/// Creates a parser for the plan's fields. Appends the arrays that they read to `used`, in the
/// order in which `blocks` has to contain them. Errors: kConfig if a field's type or shape does not
/// match its array; kNoInput if `source` does not have the array.
Result<std::unique_ptr<RecordParser>> make_array_parser(const FieldContext& context,
                                                        const ArrayFields& from,
                                                        std::shared_ptr<const RowBlocks> blocks,
                                                        std::vector<SourceArray>& used);

}  // namespace downpour::data
