// RecordFlow: yields the records of a shard's ranges in the shard's order: interleaved, then
// shuffled.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/formats/parser.h"
#include "shared/data/reading/read_plan.h"
#include "shared/data/reading/scratch.h"
#include "shared/data/records/window.h"
#include "shared/plan/shard.h"

namespace downpour::data {

/// Shuffles the records of the window with index `window` into the order in which the shard yields
/// them.
template <typename Record>
void shuffle_window(std::vector<Record>& records, uint64_t seed, ShardId shard, uint32_t window) {
  Rng rng(hash_combine(hash_combine(hash_combine(seed, shard.epoch), shard.shard), window));
  for (size_t i = records.size(); i > 1; --i) std::swap(records[i - 1], records[rng.below(i)]);
}

/// One opened range of a shard.
struct OpenRange {
  plan::ShardRange range;
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
  bool kept = false;  // a cache supplies the records
};

/// Merges the ranges of a shard and shuffles the result.
///
/// Ranges take turns. In a weighted mix the next range is drawn at random, in proportion to the
/// estimated number of records in each range. Otherwise they take turns in order, and each turn
/// yields the `block` records of DataSpec::interleave in file order. A range at its end loses its
/// turn.
///
/// The merged sequence is cut into windows, and each window is shuffled on its own. A window has
/// `shuffle_records` records, or as many as the current windows of all ranges hold together (the
/// records that the reader has in memory). The order depends only on the plan, the shard and the
/// bytes of the files.
class RecordFlow {
 public:
  /// `scratch` holds the memory of the ranges' windows: texts[i] belongs to range i.
  RecordFlow(const ReadPlan& plan, ShardId shard, std::vector<OpenRange> ranges,
             std::unique_ptr<Scratch> scratch);

  /// Moves to the next window, which may be empty. Returns false at the end. Errors: those of
  /// reading.
  Result<bool> next();
  /// Calls WindowSource::check() of all ranges.
  Result<void> check();
  /// Returns the number of records in the window.
  size_t size() const { return size_; }
  /// Appends the records [begin, end) of the window to `to`.
  void append(size_t begin, size_t end, std::vector<QueuedRecord>& to) const;
  bool shuffles() const { return shuffle_; }
  /// Returns true if all records are of one range.
  bool is_single() const { return ranges_.size() == 1; }
  /// Returns true if no range is read from its file.
  bool is_kept() const {
    return std::all_of(ranges_.begin(), ranges_.end(),
                       [](const Range& range) { return range.open.kept; });
  }

  const plan::ShardRange& range_of(const QueuedRecord& record) const {
    return ranges_[record.range].open.range;
  }
  RecordParser& parser_of(const QueuedRecord& record) { return *ranges_[record.range].open.parser; }
  const char* text_of(const QueuedRecord& record) const {
    return ranges_[record.range].window.text + record.ref.begin;
  }
  /// Returns "file:line" of a record. Only for error messages.
  std::string locate(const QueuedRecord& record) {
    return ranges_[record.range].open.source->locate(record.offset);
  }
  /// Returns the parser of the first range. All parsers yield the same columns.
  RecordParser& parser() { return *ranges_[0].open.parser; }
  Scratch& scratch() { return *scratch_; }

  /// Returns how many bytes of the shard are consumed after the first `count` records of the
  /// window.
  uint64_t progress(size_t count) const;
  /// Returns how many bytes of the shard all records so far have consumed; at the end, all bytes
  /// that were read.
  uint64_t progress() const;
  /// Returns where the shard's first record starts and its last one ends. Valid at the end. If
  /// shards join ranges, each value is a sum of plan::offset_hash() over the ranges of files that
  /// were cut.
  void extent(uint64_t& first_offset, uint64_t& end_offset) const;
  /// Returns the scratch memory to `pool`.
  void close(ScratchPool& pool);

 private:
  struct Range {
    OpenRange open;
    Window window;
    size_t taken = 0;      // records of the window that were taken
    uint64_t share = 0;    // in a mix: estimated number of records
    bool in_use = false;   // records taken refer to the text of the window
    bool resting = false;  // takes no turn until the next window of the flow
    bool ended = false;
  };
  Result<void> load(Range& range);
  void take(Range& range, size_t count);
  Result<void> gather();
  void rest(Range& range);
  void pass_turn();
  void draw_turn();

  const ReadPlan& plan_;
  const ShardId shard_;
  const bool shuffle_;
  const uint64_t limit_;  // maximum number of records in a window
  const bool mixes_;
  const bool single_;  // the windows of the only range are the flow's windows
  Rng rng_;            // draws the next range of a mix
  std::unique_ptr<Scratch> scratch_;
  std::vector<Range> ranges_;
  size_t size_ = 0;
  uint32_t windows_ = 0;
  size_t turn_ = 0;    // index of the range whose turn it is
  uint64_t left_ = 0;  // records left in its turn
  // Totals over the ranges that take turns: those neither at their end nor resting.
  size_t active_ = 0;
  uint64_t shares_ = 0;
  uint64_t begin_progress_ = 0, end_progress_ = 0;
};

}  // namespace downpour::data
