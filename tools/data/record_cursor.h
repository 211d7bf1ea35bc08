// RecordCursor: the records of a file one by one, as the bytes that they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/data/arrays.h"
#include "shared/data/fields.h"
#include "shared/data/window.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::tools {

/// A line without its line break; what a TFRecord's frame holds; the row of every array, one behind
/// the other; an image's pixels. kPadBytes behind it are readable.
struct RawRecord {
  std::string_view bytes;
  uint64_t offset = 0;   // in the decompressed file; of arrays the row
  data::Fault fault;     // reason != null: it is no whole record, or fails its checksum
  bool dropped = false;  // by data.program: there are no bytes
};

struct CursorOptions {
  bool check = true;  // TFRecord: the checksums of the records' bytes
  /// Shows what data.program makes of the records that the job's source chooses by number, the
  /// file's first one having this number, as in this epoch.
  const Job* through_program_of = nullptr;
  uint32_t epoch = 0;
  uint64_t first_number = 0;
  std::shared_ptr<data::ProgramPool> programs = data::make_program_pool();
};

class RecordCursor {
 public:
  virtual ~RecordCursor() = default;
  /// False at the end. The record is valid until the next call. Errors: kIo, kBadData where nothing
  /// more can be read (a compressed file that is damaged, say).
  virtual Result<bool> next(RawRecord& record) = 0;
  /// "file:line", "file:record N (byte B)", "file:row N". Reads the file anew: for errors only.
  virtual std::string locate(uint64_t offset) = 0;
  /// Bytes of the file that lie behind.
  virtual uint64_t progress() const = 0;
  /// Records so far that were not chosen, and so not shown.
  virtual uint64_t left_out() const { return 0; }
};

/// Whether the bytes of a TFRecord, which stand before their checksum, have it; else its fault.
void check_frame(RawRecord& record);

/// Opens a file of the data set. Errors: as the readers'.
Result<std::unique_ptr<RecordCursor>> open_cursor(const DataSpec& data, const plan::FileInfo& info,
                                                  const CursorOptions& options);

}  // namespace downpour::tools
