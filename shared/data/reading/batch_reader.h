// BatchReader: turns windows of records into batches with unique keys, through holdout, shuffle and
// parser.
#pragma once

#include <memory>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/formats/parser.h"
#include "shared/data/reading/batch_columns.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/record_flow.h"
#include "shared/data/reading/scratch.h"
#include "shared/data/reading/shard_reader.h"
#include "shared/data/records/window.h"

namespace downpour::data {

/// Returns why a record that is not whole has no bytes. No reason means that data.program dropped
/// it.
Fault fault_of(const RecordRef& record);

/// What became of a record.
struct RecordFate {
  enum class Kind : uint8_t {
    kBatch,        // part of a batch
    kHeldOut,      // held out for evaluation
    kFiltered,     // dropped by the job's filter
    kSkipped,      // bad, and skipped because the job skips bad records
    kDropped,      // part of a short last batch that is dropped
    kQuarantined,  // part of a quarantined batch
  };
  Kind kind = Kind::kBatch;
  uint32_t batch = 0;  // kBatch, kQuarantined
};

/// The ShardReader of every format. It applies the steps of the pipeline in this order: source,
/// interleave, shuffle, filter, batch.
class BatchReader final : public ShardReader {
 public:
  BatchReader(std::shared_ptr<const ReadPlan> plan, Split split, ShardId shard,
              std::vector<OpenRange> ranges, std::unique_ptr<Scratch> scratch, uint32_t first_batch,
              std::vector<uint32_t> quarantined_batches);
  ~BatchReader() override;
  Result<bool> next(Batch& batch) override;
  const ShardTotals& totals() const override;
  std::optional<uint32_t> failed_batch() const override { return failed_batch_; }
  bool is_kept() const override { return flow_.is_kept(); }

  /// Watches the record that starts at `offset` of a file. fate() returns its fate once its batch
  /// is complete.
  void watch(uint32_t file, uint64_t offset) {
    watched_file_ = file;
    watched_ = offset;
  }
  const std::optional<RecordFate>& fate() const { return fate_; }
  /// A record as it is stored in its window, not parsed.
  struct Found {
    uint32_t file = 0;
    RecordRef ref;
    uint64_t offset = 0;         // in the file; for arrays the row number
    const char* text = nullptr;  // ref.size bytes if the record is whole and not a row of arrays
  };
  /// Returns the next record, in place of next(); nothing at the end. Valid until the next call.
  Result<std::optional<Found>> next_record();
  /// Returns "file:line" of the last record of next_record(). Only for error messages.
  std::string where() { return flow_.locate(run_.front()); }
  /// Returns how many bytes of the shard have been read.
  uint64_t progress() const { return flow_.progress(); }

 private:
  /// Parses records until the batch is full or the shard ends.
  Result<void> fill(Batch& batch);
  /// Counts the records of one batch without parsing them.
  Result<void> pass_over(Batch& batch);
  /// Puts at most `max` records of one window that are not held out into run_. Returns false at the
  /// end of the shard.
  Result<bool> next_run(Batch& batch, size_t max);
  bool is_held_out(const QueuedRecord& record);
  /// Keeps in run_ only the records of the reader's split, and counts the others.
  void keep_own_split(Batch& batch);
  /// Parses one record of run_.
  Result<void> take(Batch& batch, Columns& columns, const QueuedRecord& record);
  Result<void> skip_or_fail(const Fault& fault, const QueuedRecord& record, Batch& batch);
  void end();
  void prefetch(const QueuedRecord& record);
  bool is_watched(const QueuedRecord& record) const {
    return record.offset == watched_ && flow_.range_of(record).file == watched_file_;
  }
  uint64_t random_of(const QueuedRecord& record) const;

  const std::shared_ptr<const ReadPlan> plan_;
  const Split split_;
  const ShardId shard_;
  const uint32_t first_batch_;
  const std::vector<uint32_t> quarantined_batches_;
  RecordFlow flow_;
  const bool random_;  // random ops are active
  size_t cursor_ = 0;  // position in the flow's window
  std::vector<QueuedRecord> run_;
  std::vector<uint64_t> file_hashes_;  // by file, computed when it is first needed; 0: not yet
  ShardTotals totals_;
  bool ended_ = false, failed_ = false;
  std::optional<uint32_t> failed_batch_;
  uint32_t watched_file_ = 0;
  uint64_t watched_ = UINT64_MAX;
  bool watched_in_batch_ = false;
  std::optional<RecordFate> fate_;
};

}  // namespace downpour::data
