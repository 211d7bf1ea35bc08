// RecordCursor: reads the records of a file one by one, as raw bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/data/formats/codec.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/records/window.h"
#include "shared/data/values/fields.h"
#include "shared/job/job.h"
#include "shared/plan/shard.h"

namespace downpour::tools {

using data::RawRecord;

struct CursorOptions {
  bool check = true;  // TFRecord: compare the checksums of the records
  /// If set, the cursor reads the output of this job's data.program in `epoch`. The program gets
  /// the records that the job's source chooses by number. `first_number` is the number of the
  /// file's first record.
  const Job* through_program_of = nullptr;
  uint32_t epoch = 0;
  uint64_t first_number = 0;
  std::shared_ptr<data::ProgramPool> programs = data::make_program_pool();
  std::shared_ptr<data::PreambleCache> preambles = data::make_preamble_cache();
};

class RecordCursor {
 public:
  virtual ~RecordCursor() = default;
  /// Reads the next record, which stays valid until the next call. Returns false at the end.
  /// Errors: kIo; kBadData if no more can be read (a damaged compressed file, for example).
  virtual Result<bool> next(RawRecord& record) = 0;
  /// Returns "file:line", "file:record N (byte B)" or "file:row N". Reads the file again, so use it
  /// only for errors.
  virtual std::string locate(uint64_t offset) = 0;
  /// Returns the number of bytes of the file that have been read.
  virtual uint64_t progress() const = 0;
  /// Returns the number of records so far that the source did not choose.
  virtual uint64_t left_out() const { return 0; }
};

/// Sets the record's fault if the checksum that follows the bytes of a TFRecord is wrong.
void check_frame(RawRecord& record);

/// Opens a file of the data set. Errors: those of the readers.
Result<std::unique_ptr<RecordCursor>> open_cursor(const DataSpec& data, const plan::FileInfo& info,
                                                  const CursorOptions& options);

}  // namespace downpour::tools
