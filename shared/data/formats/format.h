// Format: how records of one layout are detected, found and parsed. Formats of the same layout,
// such as csv and tsv, share these functions. The traits of the formats are in
// shared/job/formats.h, because the checks of a job need them too.
//
// The format memory has no file: its records are rows of a MemoryTable. The formats npy and npz are
// *arrays*: a source has several NumPy arrays, and record i consists of
// row i of each array that a field reads. A *window* (records/window.h) is a bounded run of
// consecutive records in memory. A *range* is a contiguous part of a file; a shard has one or
// several.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "shared/data/bytes/byte_source.h"
#include "shared/data/formats/file_sample.h"
#include "shared/data/formats/parser.h"
#include "shared/data/records/record_cuts.h"
#include "shared/data/records/window.h"
#include "shared/data/values/field_context.h"
#include "shared/job/formats.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// The memory for the windows of a range, and the size that a window should have, in bytes.
/// `buffer` holds the text of the current window, and `records` the positions of its records. The
/// memory must outlive the windows.
struct WindowMemory {
  size_t window_bytes = 0;
  Buffer& buffer;
  std::vector<RecordRef>& records;
};

/// The functions of a layout. A null function means that its formats do not support the operation.
struct Format {
  RecordLayout layout = RecordLayout::kUnknown;
  /// Detects the format of a file, and the settings that a job for it needs. Returns nothing if the
  /// file has another layout.
  std::optional<Sniffed> (*sniff)(FileSample& file) = nullptr;
  /// Opens windows of the records of a range, without a parser. Null for arrays: the fields decide
  /// which arrays are read, so open_rows() opens the windows together with the parser. Errors:
  /// kNoInput, kIo, kBadData.
  Result<std::unique_ptr<WindowSource>> (*open)(const FieldContext& context,
                                                const plan::FileInfo& info,
                                                const plan::ShardRange& range,
                                                const WindowMemory& memory) = nullptr;
  /// Opens windows of the records that a program writes to its stdout. `name` is for messages. Null
  /// for arrays, for which rows_of() (numpy/array_stream.h) is called instead, and for formats that
  /// a program cannot write.
  Result<std::unique_ptr<WindowSource>> (*open_stream)(const FieldContext& context,
                                                       std::unique_ptr<ByteSource> source,
                                                       const std::string& name,
                                                       const WindowMemory& memory) = nullptr;
  /// Makes the parser for the records of a file. Null for arrays. Errors: kConfig naming a field;
  /// kBadData for a bad header.
  Result<std::unique_ptr<RecordParser>> (*make_parser)(const FieldContext& context,
                                                       const plan::FileInfo& info) = nullptr;
  /// Opens windows of rows together with their parser. Only for arrays.
  Result<ShardRecords> (*open_rows)(const FieldContext& context, const plan::FileInfo& info,
                                    const plan::ShardRange& range,
                                    const WindowMemory& memory) = nullptr;
  /// Finds the offsets at which an uncompressed file can be cut into ranges of about
  /// `target_bytes`, by a scan of at most `records_max` records. Called only if
  /// DataSpec::boundaries_need_scan() is true.
  Result<RecordCuts> (*find_cuts)(const DataSpec& data, const plan::FileInfo& info,
                                  uint64_t target_bytes, uint64_t records_max) = nullptr;
  /// Returns the mean size of a record on disk in bytes, at least 1, estimated from the file's
  /// beginning.
  Result<uint64_t> (*mean_record_bytes)(const DataSpec& data, const std::string& path) = nullptr;
};

// One Format per layout, each defined in the source file that implements the layout.
extern const Format kArrays, kFrames, kImages, kJsonLines, kSparseLines, kTables, kMemoryColumns;

/// The entry of RecordLayout::kUnknown, which stands for a format that is not decided yet. It has
/// no functions.
inline constexpr Format kUndecided;
/// All layouts, in the order of the enum.
inline constexpr auto kFormatTable =
    std::to_array<const Format*>({&kUndecided, &kArrays, &kFrames, &kImages, &kJsonLines,
                                  &kSparseLines, &kTables, &kMemoryColumns});
static_assert(kFormatTable.size() == size_t(RecordLayout::kLast) + 1,
              "kFormatTable needs one entry per RecordLayout");

/// Returns the functions of a format.
inline const Format& format_of(DataFormat format) {
  const Format& found = *kFormatTable[size_t(layout_of(format))];
  DP_CHECK(found.layout == layout_of(format), size_t(format));  // kFormatTable has the enum's order
  return found;
}

/// Calls Format::open() of the job's format. Requires that the format is not arrays.
Result<std::unique_ptr<WindowSource>> open_windows(const FieldContext& context,
                                                   const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   const WindowMemory& memory);

}  // namespace downpour::data
