// Format: how the records of a data format are found, counted and parsed. What the settings of a
// job need to know of it is in shared/job/formats.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "shared/data/bytes/byte_source.h"
#include "shared/data/formats/parser.h"
#include "shared/data/records/record_cuts.h"
#include "shared/data/records/window.h"
#include "shared/data/values/field_context.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Where the windows of a range keep their text, and the bytes that a window should have. Outlives
/// the windows.
struct WindowMemory {
  size_t window_bytes = 0;
  Buffer& buffer;
  std::vector<RecordRef>& records;
};

/// The functions of a format. A null function stands for what the format cannot do.
struct Format {
  DataFormat format = DataFormat::kAuto;
  /// Opens windows of the records of a range, without a parser. Null for arrays, because the fields
  /// determine the content of their rows. Errors: kNoInput, kIo, kBadData.
  Result<std::unique_ptr<WindowSource>> (*open)(const FieldContext& context,
                                                const plan::FileInfo& info,
                                                const plan::ShardRange& range,
                                                const WindowMemory& memory) = nullptr;
  /// Opens windows of the records that a program writes. `name` is for messages. Null for arrays,
  /// which a RowStream reads, and for formats that a program cannot write.
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
  /// Finds where a plain file can be cut into pieces of about `target_bytes`, by a scan of at most
  /// `records_max` records. Called only if DataSpec::boundaries_need_scan().
  Result<RecordCuts> (*find_cuts)(const DataSpec& data, const plan::FileInfo& info,
                                  uint64_t target_bytes, uint64_t records_max) = nullptr;
  /// Returns the mean bytes of a record on disk, at least 1, estimated from the file's beginning.
  Result<uint64_t> (*mean_record_bytes)(const DataSpec& data, const std::string& path) = nullptr;
};

// The formats, each defined in the file of its parser.
extern const Format kLibsvm, kLibffm, kCsv, kTsv, kCriteo, kMnist, kTfrecord, kNpy, kNpz, kJsonl;

/// All formats, in the order of the enum. DataFormat::kAuto can do nothing.
inline constexpr Format kUndecided;
inline constexpr std::array<const Format*, size_t(DataFormat::kLast) + 1> kFormatTable = {
    &kUndecided, &kLibsvm, &kCsv, &kTsv,   &kCriteo, &kMnist,
    &kTfrecord,  &kNpy,    &kNpz, &kJsonl, &kLibffm};

/// Returns the functions of a format.
inline const Format& format_of(DataFormat format) {
  const Format& found = *kFormatTable[size_t(format)];
  DP_CHECK(found.format == format, size_t(format));  // the order of the table
  return found;
}

/// Opens windows of the records of a range, without a parser. Not for arrays.
Result<std::unique_ptr<WindowSource>> open_windows(const FieldContext& context,
                                                   const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   const WindowMemory& memory);

}  // namespace downpour::data
