// WorkerView: the records that one worker would read, as the worker's own reader yields them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/reading/batch_reader.h"
#include "tools/data/pieces.h"
#include "tools/data/record_cursor.h"
#include "tools/data/row_picker.h"

namespace downpour::tools {

/// Yields records in the order of a training whose workers are equally fast. The records are
/// chosen, interleaved, mixed, shuffled and passed through data.program. Held-out records are left
/// out. data.filter and transforms are not applied.
class WorkerView {
 public:
  /// Opens the view. Errors: those of cut_data() and of the job's model.
  static Result<WorkerView> open(const DataSet& set, WorkerPlace worker, uint32_t epoch);
  /// Reads the next record. Returns false at the end.
  Result<bool> next(RawRecord& record);
  /// Returns the file of the last record.
  const plan::FileInfo& file() const { return plan_->files[file_]; }
  std::string where() { return reader_->where(); }
  uint64_t progress_bytes() const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  Result<void> open_shard();
  Result<void> pick_row(RawRecord& record);

  std::shared_ptr<const data::ReadPlan> plan_;
  DataSpec readable_;  // result of readable_data(), for the arrays
  plan::ShardMap shards_;
  std::vector<ShardId> given_;
  size_t next_ = 0;  // index in given_
  std::unique_ptr<data::BatchReader> reader_;
  uint32_t file_ = 0;
  uint32_t picked_file_ = UINT32_MAX;
  std::unique_ptr<RowPicker> picker_;  // of picked_file_
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace downpour::tools
