// ArrayParser: one row of several arrays into columns, wherever a window has laid the rows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/arrays.h"
#include "shared/data/parser.h"

namespace downpour::data {

/// Where a window's rows lie: what its source tells its parser.
struct RowBlocks {
  const char* text = nullptr;       // Window::text; row i is at text + i
  std::vector<const char*> blocks;  // row 0 of each array
  std::vector<size_t> row_bytes;
  std::vector<size_t> strides;  // from row to row; empty: as row_bytes

  /// Of rows of all arrays side by side, whose places are bytes of the text (strides of 1).
  void lie_in(const char* rows) {
    text = rows;
    blocks.resize(row_bytes.size());
    for (size_t i = 0; i < blocks.size(); rows += row_bytes[i++]) blocks[i] = rows;
  }
};

/// A parser of the plan's fields in rows of `there`; the arrays that they read, in the order in
/// which `blocks` will have them, go to `used`. `name_of` says which array a field reads; an empty
/// name in `there` stands for the only one. An empty `there` has no rows to read. Errors: kConfig
/// where a field's type or shape is not its array's; kNoInput where `source` has not the array.
struct ArrayFields {
  std::string source;
  std::vector<SourceArray> there;
  std::function<std::string(const FieldSpec&)> name_of;
};
Result<std::unique_ptr<RecordParser>> make_array_parser(const ReadPlan& plan,
                                                        const ArrayFields& from,
                                                        std::shared_ptr<const RowBlocks> blocks,
                                                        std::vector<SourceArray>& used);

}  // namespace downpour::data
