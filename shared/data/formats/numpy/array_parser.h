// ArrayParser: parses a record, which is one row of each of several arrays, into columns. RowBlocks
// says where the window stores the rows.
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
  // Window::text. The record at text + r has, of array i, the row at blocks[i] + r * strides[i].
  const char* text = nullptr;
  std::vector<const char*> blocks;  // row 0 of each array
  std::vector<size_t> row_bytes;    // of each array
  std::vector<size_t> strides;      // of each array: distance between two rows; empty: row_bytes

  /// Describes records that begin in the text at `rows`, each of which stores its rows of all
  /// arrays one after the other. The strides must be 1, because r is then an offset in bytes.
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
