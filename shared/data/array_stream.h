// Arrays one behind the other, as a program writes them: np.save of each field's, again and again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/data/array_parser.h"
#include "shared/data/arrays.h"
#include "shared/data/byte_source.h"

namespace downpour::data {

constexpr uint64_t kChunkBytesMax = uint64_t{256} << 20;  // of the arrays that belong together

/// The names of the arrays that are expected, in their order: `data.columns`, or where that is
/// empty the fields' own, by name (I2 before I10). Without those that a field is made of.
std::vector<std::string> streamed_arrays(const DataSpec& data);

/// Rows of arrays that lie side by side.
struct RowStream {
  ShardRecords records;
  std::shared_ptr<const ArrayFields> arrays;  // that come
  size_t row_bytes = 0;                       // of those that a field reads
};

/// Rows of all that `source` gives: .npy arrays (any version, C order) in the order of
/// streamed_arrays(), all with as many rows, then the same again with as many rows as it likes. Row
/// i of each is a record of `row_bytes`, whose offset is its place among the others. Waits for the
/// first arrays. Errors: kBadData naming the array and record where one is cut short, or has
/// another type or shape than before; as parse_npy() and make_array_parser().
Result<RowStream> rows_of(std::unique_ptr<ByteSource> source, const ReadPlan& plan,
                          const std::string& name, size_t window_bytes, Buffer& buffer,
                          std::vector<RecordRef>& records);

/// The same of rows that were read: `windows` are of those of `arrays`.
Result<RowStream> rows_in(std::unique_ptr<WindowSource> windows, const ReadPlan& plan,
                          std::shared_ptr<const ArrayFields> arrays);

}  // namespace downpour::data
