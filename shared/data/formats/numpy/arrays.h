// Arrays: NumPy arrays as records. Row i of every array is record i. A source is one .npy file, a
// folder of .npy files (one per field), or an .npz archive.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/data/bytes/file.h"
#include "shared/data/bytes/zip.h"
#include "shared/data/formats/numpy/npy.h"
#include "shared/data/formats/parser.h"
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

constexpr std::string_view kNpyEnding = ".npy";

/// One array of a source.
struct SourceArray {
  std::string name;   // of the file in the folder, or in the archive; "" for a single file
  std::string where;  // for messages
  NpyArray array;
  std::shared_ptr<const File> file;
  ZipMember member;  // of an archive; if not deflated, `array` gives its offset in the file
};

/// Opens the arrays of a source that its fields read, or all arrays if no field is declared. Leaves
/// out an array that does not exist. Errors: kNoInput if no array is left; kBadData naming both
/// arrays if two have different numbers of rows; those of parse_npy() and list_zip().
Result<std::vector<SourceArray>> open_arrays(const DataSpec& data, const std::string& path);

/// Opens the deflated members among the arrays, each at its first row; null for other arrays.
Result<std::vector<std::unique_ptr<InflatedMember>>> inflated_members(
    const std::vector<SourceArray>& arrays);

/// Reads the arrays that open_arrays() returns as far as their archive has checksums which training
/// does not compare, because it reads their rows at any place. Error kBadData if one differs.
Result<void> check_arrays(const DataSpec& data, const std::string& path);

/// Describes a source, given its open_arrays(), as a file of a plan. Its bytes are those of all
/// rows of all arrays, and row i starts at i times the bytes of one row. The source is not
/// splittable if a member is deflated.
Result<plan::FileInfo> look_at_arrays(const std::string& path,
                                      const std::vector<SourceArray>& arrays);

/// Returns whether open_arrays() reads `path`. It does for the formats npy and npz; with format
/// auto for a folder that contains .npy files, and for a path that ends in .npy or .npz.
bool names_arrays(const DataSpec& data, const std::string& path);

/// Returns the name of the array that a field reads.
std::string array_name_of(const DataSpec& data, const std::string& path, const FieldSpec& field);

/// Returns the element at `at` as a double. For format detection only.
double npy_number(const char* at, NpyType type);

}  // namespace downpour::data
