// BatchReader: windows of records through holdout, shuffle and parser into batches with unique
// keys.
#pragma once

#include <memory>

#include "shared/data/dataset.h"
#include "shared/data/parser.h"
#include "shared/data/record_trace.h"
#include "shared/data/scratch.h"
#include "shared/data/window.h"

namespace downpour::data {

/// Why there are no bytes of a record that is not whole.
Fault fault_of(const RecordRef& record);
/// What is said of a bad record at `where`.
Error bad_record_error(const Fault& fault, std::string where);
/// The order in which a shard gives out the records of its window-th window.
void shuffle_window(std::vector<RecordRef>& records, uint64_t seed, ShardId shard, uint32_t window);
/// Whether the number-th record over all files belongs to the source and, in it, to the range's
/// stream.
bool is_chosen(const SourceSpec& source, const plan::ShardRange& range, uint64_t number);
/// Leaves those of a window's records that are chosen; `number` is the first one's. Others are not
/// read in the account's sense: they are somebody else's, or nobody's.
void choose_by_number(const SourceSpec& source, const plan::ShardRange& range, uint64_t number,
                      std::vector<RecordRef>& records);
/// Whether the record at `offset` of the plan's file-th file is kept out of training.
bool is_held_out(double holdout, uint32_t file, uint64_t offset);
/// The bytes of text or pixels that a window has.
size_t window_bytes_of(const DataSpec& data);

/// A shard's records, and what makes columns of them.
struct ShardRecords {
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
};
/// Opens a shard without the steps behind its records. `scratch` outlives both. Errors: as
/// open_shard().
Result<ShardRecords> open_records(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, Scratch& scratch);
/// The records alone, of any format but arrays, whose rows their fields choose.
Result<std::unique_ptr<WindowSource>> open_windows(const DataSpec& data, const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   size_t window_bytes, Buffer& buffer,
                                                   std::vector<RecordRef>& records);

/// The ShardReader of every format. The order of its steps is the pipeline's: source, shuffle,
/// filter, batch.
class BatchReader final : public ShardReader {
 public:
  BatchReader(std::shared_ptr<const ReadPlan> plan, Part part, ShardId shard,
              const plan::ShardRange& range, uint32_t first_batch, std::vector<uint32_t> given_up,
              std::unique_ptr<Scratch> scratch, std::unique_ptr<WindowSource> source,
              std::unique_ptr<RecordParser> parser);
  ~BatchReader() override;
  Result<bool> next(Batch& batch) override;
  const ShardTotals& totals() const override;
  std::optional<uint32_t> failed_batch() const override { return failed_batch_; }

  /// What becomes of the record that starts at `offset` is told by fate() once its batch is made.
  void watch(uint64_t offset) { watched_ = offset; }
  const std::optional<RecordFate>& fate() const { return fate_; }
  /// The next record's place, without parsing it; instead of next(). None at the end.
  struct Place {
    uint64_t offset = 0, bytes = 0;
  };
  Result<std::optional<Place>> next_place();
  std::string locate(uint64_t offset) { return source_->locate(offset); }

 private:
  Result<bool> next_window();
  void begin_batch(Batch& batch);
  /// Parses records until the batch is full or the shard at its end.
  Result<void> fill(Batch& batch);
  /// As many records, counted and not parsed.
  Result<void> pass_over(Batch& batch);
  /// The next record that is not held out; none at the shard's end.
  Result<bool> next_record(Batch& batch, RecordRef& record);
  Result<void> skip_or_fail(const Fault& fault, uint64_t offset, Batch& batch);
  void finish_batch(Batch& batch);
  void prefetch(size_t at) const;
  bool held_out(uint64_t offset) const;

  const std::shared_ptr<const ReadPlan> plan_;
  const Part part_;
  const ShardId shard_;
  const plan::ShardRange range_;
  const uint32_t first_batch_;
  const std::vector<uint32_t> given_up_;
  const bool shuffle_;
  const bool random_;  // random ops act
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<WindowSource> source_;
  std::unique_ptr<RecordParser> parser_;
  Window window_;
  uint32_t window_count_ = 0;
  uint64_t number_;    // of the next window's first record, over all files of the source
  size_t cursor_ = 0;  // in window_.records
  ShardTotals totals_;
  bool ended_ = false, failed_ = false;
  std::optional<uint32_t> failed_batch_;
  uint64_t watched_ = UINT64_MAX;
  bool watched_in_batch_ = false;
  std::optional<RecordFate> fate_;
};

/// open_shard() with what only this reader has.
Result<std::unique_ptr<BatchReader>> open_batch_reader(std::shared_ptr<const ReadPlan> plan,
                                                       Part part, ShardId shard,
                                                       const plan::ShardRange& range,
                                                       uint32_t first_batch,
                                                       std::vector<uint32_t> given_up);

}  // namespace downpour::data
