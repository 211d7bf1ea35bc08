// RecordWalk: visits the records of a data set, or those that one worker reads, one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/data/data_set.h"
#include "tools/data/record_cursor.h"
#include "tools/data/worker_view.h"

namespace downpour::tools {

/// Visits all records of the source in file order, or the records that one worker would read.
class RecordWalk {
 public:
  /// Opens the walk. Errors for a worker: as WorkerView::open().
  static Result<RecordWalk> open(const DataSet& set, WorkerPlace worker, uint32_t epoch);
  /// Reads the next record. Returns false at the end.
  Result<bool> next(RawRecord& record);
  /// Returns the file of the last record.
  const plan::FileInfo& file() const;
  std::string where(const RawRecord& record);
  /// Returns how many of total_bytes() have been read.
  uint64_t progress_bytes() const;
  uint64_t total_bytes() const;

 private:
  std::optional<WorkerView> view_;  // of a worker; otherwise the following members are used
  DataSpec data_;
  std::vector<plan::FileInfo> files_;
  std::shared_ptr<const Job> job_;  // set if the records go through the job's program
  CursorOptions options_;
  uint64_t number_ = 0;  // of the next record, counted over all files
  size_t next_ = 0;      // index of the next file
  std::unique_ptr<RecordCursor> cursor_;
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace downpour::tools
