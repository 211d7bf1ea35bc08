// RecordFlow: the records of a shard's ranges in the order in which the shard gives them out:
// interleaved, then shuffled.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "shared/base/rng.h"
#include "shared/data/dataset.h"
#include "shared/data/parser.h"
#include "shared/data/scratch.h"
#include "shared/data/window.h"

namespace downpour::data {

/// One range of a shard, opened.
struct OpenRange {
  plan::ShardRange range;
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
  bool kept = false;  // by a cache
};

/// Ranges take turns: those of a weighted mix as drawn by chance, in proportion to the records that
/// each is thought to have; others in a row, each with DataSpec::interleave's `block` records in
/// the order of its file; one that is at its end is passed over. What so comes to lie in a row is
/// cut in windows, each shuffled by itself: of `shuffle_records` records, or of as many as the
/// ranges' own windows have at once (what a reader keeps in memory). A function of the plan, the
/// shard and the files' bytes.
class RecordFlow {
 public:
  /// `scratch` has the memory of the ranges' windows, `texts` in their order.
  RecordFlow(const ReadPlan& plan, ShardId shard, std::vector<OpenRange> ranges,
             std::unique_ptr<Scratch> scratch);

  /// Goes to the next window, which may be empty. False at the end. Errors: as of reading.
  Result<bool> next();
  /// WindowSource::check() of all ranges.
  Result<void> check();
  /// Records of the window.
  size_t size() const { return size_; }
  /// Those of [begin, end) to the end of `to`.
  void append(size_t begin, size_t end, std::vector<QueuedRecord>& to) const;
  bool shuffles() const { return shuffle_; }
  /// Whether all records are of one range.
  bool is_single() const { return ranges_.size() == 1; }
  /// Whether no range is read from its file.
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
  /// "file:line". Only for errors.
  std::string locate(const QueuedRecord& record) {
    return ranges_[record.range].open.source->locate(record.offset);
  }
  /// The first range's: all are made for the same columns.
  RecordParser& parser() { return *ranges_[0].open.parser; }
  Scratch& scratch() { return *scratch_; }

  /// Bytes of the shard that the first `count` records of the window bring it to.
  uint64_t progress(size_t count) const;
  /// The same of all that was taken so far; at the end, of all that was read.
  uint64_t progress() const;
  /// At the end: where the shard's first record starts and its last one ends; where shards join
  /// ranges, the sums of plan::place_mark() over those of each in a file that was cut.
  void extent(uint64_t& first_offset, uint64_t& end_offset) const;
  /// Gives the memory back.
  void close(ScratchPool& pool);

 private:
  struct Range {
    OpenRange open;
    Window window;
    size_t taken = 0;      // of the window's records
    uint64_t share = 0;    // of a mix: how many records it has, about
    bool in_use = false;   // the window's text is wanted by what is taken
    bool resting = false;  // until the next window of the flow
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
  const uint64_t limit_;  // records of a window
  const bool mixes_;
  const bool single_;  // its windows are the flow's
  Rng rng_;            // draws whose turn it is in a mix
  std::unique_ptr<Scratch> scratch_;
  std::vector<Range> ranges_;
  size_t size_ = 0;
  uint32_t windows_ = 0;
  size_t turn_ = 0;    // of this range
  uint64_t left_ = 0;  // records of its block
  // Of ranges that take turns: neither at their end nor resting.
  size_t active_ = 0;
  uint64_t shares_ = 0;
  uint64_t begin_progress_ = 0, end_progress_ = 0;
};

}  // namespace downpour::data
