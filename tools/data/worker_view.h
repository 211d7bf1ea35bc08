// WorkerView: the records that a worker would be given, as its own reader gives them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/batch_reader.h"
#include "tools/data/pieces.h"
#include "tools/data/record_cursor.h"
#include "tools/data/row_picker.h"

namespace downpour::tools {

/// In the order of a training, if all workers are equally fast: chosen, interleaved, mixed,
/// shuffled, through data.program, without those held out; before filter and transforms.
class WorkerView {
 public:
  /// Errors: as cut_data() and of the job's model.
  static Result<WorkerView> open(const DataSet& set, WorkerPlace worker, uint32_t epoch);
  /// False at the end.
  Result<bool> next(RawRecord& record);
  /// Of the record given last.
  const plan::FileInfo& file() const { return plan_->files[file_]; }
  std::string where() { return reader_->where(); }
  uint64_t progress_bytes() const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  Result<void> open_shard();
  Result<void> pick_row(RawRecord& record);

  std::shared_ptr<const data::ReadPlan> plan_;
  DataSpec readable_;  // whose arrays are shown
  plan::ShardMap shards_;
  std::vector<ShardId> given_;
  size_t next_ = 0;  // of given_
  std::unique_ptr<data::BatchReader> reader_;
  uint32_t file_ = 0;
  uint32_t picked_file_ = UINT32_MAX;
  std::unique_ptr<RowPicker> picker_;  // of that file
  uint64_t total_bytes_ = 0, done_bytes_ = 0;
};

}  // namespace downpour::tools
