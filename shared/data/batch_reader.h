// BatchReader: windows of records through holdout, shuffle and parser into batches with unique
// keys.
#pragma once

#include <memory>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/dataset.h"
#include "shared/data/parser.h"
#include "shared/data/record_flow.h"
#include "shared/data/record_trace.h"
#include "shared/data/scratch.h"
#include "shared/data/window.h"

namespace downpour::data {

/// Why there are no bytes of a record that is not whole; without a reason: it was dropped.
Fault fault_of(const RecordRef& record);
/// What is said of a bad record at `where`.
Error bad_record_error(const Fault& fault, std::string where);
/// The order in which a shard gives out the records of its window-th window.
template <typename Record>
void shuffle_window(std::vector<Record>& records, uint64_t seed, ShardId shard, uint32_t window) {
  Rng rng(hash_combine(hash_combine(hash_combine(seed, shard.epoch), shard.shard), window));
  for (size_t i = records.size(); i > 1; --i) std::swap(records[i - 1], records[rng.below(i)]);
}
/// Whether the record at `offset` of the plan's file-th file is kept out of training.
bool is_held_out(double holdout, uint32_t file, uint64_t offset);

/// Opens one of the `ranges` of a shard without the steps behind its records. `text` outlives
/// both. Errors: as open_shard().
Result<ShardRecords> open_records(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, Scratch::Text& text,
                                  size_t ranges = 1);
/// The records alone, of any format but arrays, whose rows their fields choose.
Result<std::unique_ptr<WindowSource>> open_windows(const DataSpec& data, const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   size_t window_bytes, Buffer& buffer,
                                                   std::vector<RecordRef>& records);

/// The ShardReader of every format. The order of its steps is the pipeline's: source, interleave,
/// shuffle, filter, batch.
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

  /// What becomes of the record that starts at `offset` of a file is told by fate() once its batch
  /// is made.
  void watch(uint32_t file, uint64_t offset) {
    watched_file_ = file;
    watched_ = offset;
  }
  const std::optional<RecordFate>& fate() const { return fate_; }
  /// The next record as it lies in its window, not parsed; instead of next(). None at the end.
  /// Valid until the next call.
  struct Found {
    uint32_t file = 0;
    RecordRef ref;
    uint64_t offset = 0;         // in the file; of arrays the row
    const char* text = nullptr;  // of ref.size bytes if it is whole and no row
  };
  Result<std::optional<Found>> next_record();
  /// "file:line" of the one that next_record() gave. Only for errors.
  std::string where() { return flow_.locate(run_.front()); }
  /// Bytes of the shard that lie behind.
  uint64_t progress() const { return flow_.progress(); }

 private:
  void begin_batch(Batch& batch);
  /// Parses records until the batch is full or the shard at its end.
  Result<void> fill(Batch& batch);
  /// As many records, counted and not parsed.
  Result<void> pass_over(Batch& batch);
  /// The next records of a window that are not held out, `max` at the most, to run_; none at the
  /// shard's end.
  Result<bool> next_run(Batch& batch, size_t max);
  /// Leaves in run_ what is of the reader's part, and counts the others.
  void keep_own_split(Batch& batch);
  /// Parses one of run_.
  Result<void> take(Batch& batch, Columns& columns, const QueuedRecord& record);
  Result<void> skip_or_fail(const Fault& fault, const QueuedRecord& record, Batch& batch);
  void finish_batch(Batch& batch);
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
  const bool random_;  // random ops act
  size_t cursor_ = 0;  // in the flow's window
  std::vector<QueuedRecord> run_;
  ShardTotals totals_;
  bool ended_ = false, failed_ = false;
  std::optional<uint32_t> failed_batch_;
  uint32_t watched_file_ = 0;
  uint64_t watched_ = UINT64_MAX;
  bool watched_in_batch_ = false;
  std::optional<RecordFate> fate_;
};

/// open_shard() with what only this reader has.
Result<std::unique_ptr<BatchReader>> open_batch_reader(std::shared_ptr<const ReadPlan> plan,
                                                       Split split, ShardId shard,
                                                       std::vector<plan::ShardRange> ranges,
                                                       uint32_t first_batch,
                                                       std::vector<uint32_t> quarantined_batches);

}  // namespace downpour::data
