// Arrays one behind the other, as a program writes them: np.save of each field's, again and again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/data/arrays.h"
#include "shared/data/byte_source.h"

namespace downpour::data {

constexpr uint64_t kChunkBytesMax = uint64_t{256} << 20;  // of the arrays that belong together

/// The names of the arrays that are expected, in their order: `data.columns`, or where that is
/// empty the fields' own, by name (I2 before I10). Without those that a field is made of.
std::vector<std::string> streamed_arrays(const DataSpec& data);

/// Rows of all that `source` gives: .npy arrays (any version, C order) in the order of
/// streamed_arrays(), all with as many rows, then the same again with as many rows as it likes. Row
/// i of each is a record, whose offset is its number over all. Waits for the first arrays. Errors:
/// kBadData naming the array and record where one is cut short, or has another type or shape than
/// before; as parse_npy() and make_array_parser().
Result<ShardRecords> rows_of(std::unique_ptr<ByteSource> source, const ReadPlan& plan,
                             const std::string& name, size_t window_bytes, Buffer& buffer,
                             std::vector<RecordRef>& records);

}  // namespace downpour::data
