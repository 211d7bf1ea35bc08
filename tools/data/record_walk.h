// RecordWalk: the records that a look goes through, one by one.
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

/// Goes through all records of the source in the order of the files, or through those that a
/// worker is given.
class RecordWalk {
 public:
  /// Errors: of a worker as WorkerView::open().
  static Result<RecordWalk> open(const DataSet& set, WorkerPlace worker, uint32_t epoch);
  /// False at the end.
  Result<bool> next(RawRecord& record);
  /// Of the record given last.
  const plan::FileInfo& file() const;
  std::string where(const RawRecord& record);
  /// Of all bytes of the files how many lie behind.
  uint64_t progress_bytes() const;
  uint64_t total_bytes() const;

 private:
  std::optional<WorkerView> view_;  // of a worker; else what follows
  DataSpec data_;
  std::vector<plan::FileInfo> files_;
  std::shared_ptr<const Job> job_;  // where its records go through a program
  CursorOptions options_;
  uint64_t number_ = 0;  // of the next record over all files
  size_t next_ = 0;      // file
  std::unique_ptr<RecordCursor> cursor_;
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace downpour::tools
