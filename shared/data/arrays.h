// NumPy arrays as records: row i of every array is record i. A source is one .npy file, a folder of
// them (a file a field), or an .npz archive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/data/byte_source.h"
#include "shared/data/npy.h"
#include "shared/data/parser.h"
#include "shared/data/window.h"
#include "shared/data/zip.h"

namespace downpour::data {

constexpr std::string_view kNpyEnding = ".npy";

/// One array of a source.
struct SourceArray {
  std::string name;   // of its file below the folder, or in the archive; of a single file ""
  std::string where;  // for messages
  NpyArray array;
  std::shared_ptr<const File> file;
  ZipMember member;  // of an archive; `array` stands in the file where it is not deflated
};

/// The arrays of a source that its fields read, and those only: all of them if no field is
/// declared. An array that is not there is left out. Errors: kNoInput where none is; kBadData
/// naming both where two have not the same number of rows; as parse_npy() and list_zip().
Result<std::vector<SourceArray>> open_arrays(const DataSpec& data, const std::string& path);

/// A source, whose open_arrays() are given, as a file of a plan: its bytes are those of all rows,
/// whichever array they lie in, and row i stands at i times the bytes of a row. Not splittable
/// where a member is deflated.
Result<plan::FileInfo> look_at_arrays(const std::string& path,
                                      const std::vector<SourceArray>& arrays);

/// What open_arrays() takes: a folder, a file named or beginning like an array or an archive.
bool names_arrays(const DataSpec& data, const std::string& path);

/// The array of a source that a field reads.
std::string array_name_of(const DataSpec& data, const std::string& path, const FieldSpec& field);

/// Windows of rows, and the parser that reads them; they belong together. A record's offset is the
/// number of its row. Errors: kConfig where a field's type or shape is not its array's.
Result<ShardRecords> open_array_rows(const ReadPlan& plan, const plan::FileInfo& info,
                                     const plan::ShardRange& range, size_t window_bytes,
                                     Buffer& buffer, std::vector<RecordRef>& records);

/// The element at `at` as a double, for a look.
double npy_number(const char* at, NpyType type);

}  // namespace downpour::data
