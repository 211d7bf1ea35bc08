// RecordFlow: yields the records of a shard's ranges in the shard's order: interleaved, then
// shuffled. Two kinds of windows occur:
// - A *range window* (records/window.h) is a run of consecutive records of one range. It holds
//   their text in memory. A range has one range window at a time.
// - A *flow window* is a run of consecutive records of the merged ranges, which point into the
//   ranges' current range windows. Records are shuffled within a flow window.
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

/// Shuffles the records of the flow window with index `window` into the order in which the shard
/// yields them.
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
  bool kept = false;  // a cache supplies the records; the file is not read
};

/// Merges the ranges of a shard and shuffles the result. The order depends only on the plan, the
/// shard and the bytes of the files.
///
/// Ranges take turns, until all are at their end. A range at its end takes no further turn.
/// - In a mix (sources with weights), each turn yields one record. Its range is drawn at random, in
///   proportion to the estimated number of records in each range.
/// - Otherwise the ranges take turns in order. A turn yields `block` records of
///   DataSpec::interleave, in file order.
///
/// The merged sequence is cut into flow windows, and each of them is shuffled on its own. A flow
/// window ends at the first of these limits:
/// - It has DataSpec::shuffle_records() records, if the job sets that number.
/// - Each range has yielded all records of its range window. The next range window cannot be loaded
///   earlier, because the text of the records that were taken must stay in memory.
/// - In a mix, or if nothing is shuffled: one range has yielded all records of its range window and
///   is not at its end. To continue without this range would change the order of turns.
class RecordFlow {
 public:
  /// `scratch` holds the memory of the range windows: texts[i] belongs to range i.
  RecordFlow(const ReadPlan& plan, ShardId shard, std::vector<OpenRange> ranges,
             std::unique_ptr<Scratch> scratch);

  /// Moves to the next flow window, which may be empty. Returns false at the end. Errors: those of
  /// reading.
  Result<bool> next();
  /// Calls WindowSource::check() of all ranges.
  Result<void> check();
  /// Returns the number of records in the flow window.
  size_t size() const { return size_; }
  /// Appends the records [begin, end) of the flow window to `to`.
  void append(size_t begin, size_t end, std::vector<QueuedRecord>& to) const;
  bool shuffles() const { return shuffle_; }
  /// Returns true if parse_run() of parser() takes the records of all ranges.
  bool takes_runs() const {
    const auto of_one_file = [&](const Range& range) {
      return range.open.range.file == ranges_[0].open.range.file;
    };
    return ranges_.size() == 1 || (ranges_[0].open.parser->finds_by_offset() &&
                                   std::all_of(ranges_.begin(), ranges_.end(), of_one_file));
  }
  /// Returns true if a cache supplies the records of all ranges, so that no file is read.
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

  /// Returns how much of the shard is consumed after the first `count` records of the flow window.
  /// The unit is that of the ranges: bytes of a file, records of a program.
  uint64_t progress(size_t count) const;
  /// Returns how much of the shard all records so far have consumed; at the end, everything that
  /// was read.
  uint64_t progress() const;
  /// Returns where the shard's first record starts and its last one ends. Valid at the end. From
  /// the values of all shards, the chief verifies that the shards tile every file that is cut: no
  /// byte is read twice or left out. If shards join ranges, a shard has no single start and end.
  /// Each value is then a sum of plan::offset_hash() over the shard's ranges of cut files, which
  /// the chief can add over all shards in any order.
  void extent(uint64_t& first_offset, uint64_t& end_offset) const;
  /// Returns the scratch memory to `pool`.
  void close(ScratchPool& pool);

 private:
  struct Range {
    OpenRange open;
    Window window;         // the range window
    size_t taken = 0;      // records of `window` that were taken
    uint64_t share = 0;    // in a mix: estimated number of records
    bool in_use = false;   // the flow window has records of `window`
    bool resting = false;  // takes no turn until the next flow window
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
  const uint64_t limit_;  // maximum number of records in a flow window
  const bool mixes_;
  const bool single_;  // each window of the only range is a flow window
  Rng rng_;            // draws the next range of a mix
  std::unique_ptr<Scratch> scratch_;
  std::vector<Range> ranges_;
  size_t size_ = 0;       // records in the flow window
  uint32_t windows_ = 0;  // flow windows so far
  size_t turn_ = 0;       // index of the range whose turn it is
  uint64_t left_ = 0;     // records left in its turn
  // Totals over the ranges that take turns: those neither at their end nor resting.
  size_t active_ = 0;
  uint64_t shares_ = 0;
  uint64_t begin_progress_ = 0, end_progress_ = 0;
};

}  // namespace downpour::data
