// Array streams: reads the concatenated output of np.save, one array per field, repeated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/data/bytes/byte_source.h"
#include "shared/data/formats/numpy/array_parser.h"
#include "shared/data/formats/numpy/arrays.h"

namespace downpour::data {

constexpr uint64_t kChunkBytesMax = uint64_t{256} << 20;  // of the arrays of one chunk

/// Returns the names of the expected arrays in their order: `data.columns`, or if that is empty the
/// names of the fields, sorted (I2 before I10). Fields that are made of other fields (crosses) have
/// no array.
std::vector<std::string> streamed_arrays(const DataSpec& data);

/// Rows whose arrays are stored side by side.
struct RowStream {
  ShardRecords records;
  std::shared_ptr<const ArrayFields> arrays;  // arrays in the stream
  size_t row_bytes = 0;                       // bytes of the arrays that a field reads
};

/// Reads rows from all of `source`. The stream consists of chunks. A chunk has one .npy array (any
/// version, C order) for each name of streamed_arrays(), all with the same number of rows. Each
/// chunk may have another number of rows. Record i consists of row i of each array that a field
/// reads; its size is `row_bytes`, and its offset is the position among these records. Waits for
/// the first chunk. Errors: kBadData naming the array and record if an array is cut short, or has
/// another type or shape than in the first chunk; those of parse_npy() and make_array_parser().
Result<RowStream> rows_of(std::unique_ptr<ByteSource> source, const FieldContext& context,
                          const std::string& name, size_t window_bytes, Buffer& buffer,
                          std::vector<RecordRef>& records);

/// Returns the same for rows that have been read before: the windows contain rows of `arrays`.
Result<RowStream> rows_in(std::unique_ptr<WindowSource> windows, const FieldContext& context,
                          std::shared_ptr<const ArrayFields> arrays);

}  // namespace downpour::data
