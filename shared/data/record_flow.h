// RecordFlow: the records of a shard's ranges in the order in which the shard gives them out:
// interleaved, then shuffled.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shared/base/rng.h"
#include "shared/data/dataset.h"
#include "shared/data/parser.h"
#include "shared/data/scratch.h"
#include "shared/data/window.h"

namespace downpour::data {

/// One range of a shard, opened. `scratch` is the memory of its window.
struct OpenRange {
  plan::ShardRange range;
  std::unique_ptr<Scratch> scratch;
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<RecordParser> parser;
};

/// A record's place in the window of one of the ranges.
struct FlowRecord {
  RecordRef ref;
  uint32_t range = 0;
};

/// Ranges take turns: those of a weighted mix as drawn by chance, in proportion to the records that
/// each is thought to have; others in a row, each with DataSpec::interleave's `block` records in
/// the order of its file; one that is at its end is passed over. The records so put in a row are
/// cut in windows, and each of these is shuffled: `shuffle_records` of them, or as many as the
/// ranges' own windows have at once (what a reader keeps in memory). A function of the plan, the
/// shard and the files' bytes.
class RecordFlow {
 public:
  RecordFlow(const ReadPlan& plan, ShardId shard, std::vector<OpenRange> ranges);

  /// Goes to the next window, which may be empty. False at the end. Errors: as of reading.
  Result<bool> next();
  const std::vector<FlowRecord>& records() const { return records_; }
  bool shuffles() const { return shuffle_; }

  const plan::ShardRange& range_of(const FlowRecord& record) const {
    return ranges_[record.range].open.range;
  }
  RecordParser& parser_of(const FlowRecord& record) { return *ranges_[record.range].open.parser; }
  const char* text_of(const FlowRecord& record) const {
    return ranges_[record.range].window.text + record.ref.begin;
  }
  uint64_t offset_of(const FlowRecord& record) const {
    return ranges_[record.range].window.offset + record.ref.begin;
  }
  /// "file:line". Only for errors.
  std::string locate(const FlowRecord& record) {
    return ranges_[record.range].open.source->locate(offset_of(record));
  }
  /// The same of a place in the first range.
  std::string locate(uint64_t offset) { return ranges_[0].open.source->locate(offset); }
  /// The first range's: all are made for the same columns.
  RecordParser& parser() { return *ranges_[0].open.parser; }
  Scratch& scratch() { return *ranges_[0].open.scratch; }

  /// Bytes of the shard that the first `count` records of the window bring it to.
  uint64_t progress(size_t count) const;
  /// At the end: where the shard's first record starts and its last one ends; where shards join
  /// ranges, the sums of plan::place_mark() over those of each in a file that was cut.
  void extent(uint64_t& first_offset, uint64_t& end_offset) const;
  /// Gives the memory back.
  void close(ScratchPool& pool);

 private:
  struct Range {
    OpenRange open;
    Window window;
    uint64_t number = 0;  // of the next window's first record, over all files of the source
    size_t taken = 0;     // of the window's records
    double share = 0;     // of a mix: its records in a million, about
    bool in_use = false;  // the window's text is wanted by records_
    bool ended = false;
  };
  Result<void> load(Range& range);
  void take(Range& range, size_t count);
  Result<void> gather();
  void pass_turn();
  void draw_turn();
  uint64_t progress() const;

  const ReadPlan& plan_;
  const ShardId shard_;
  const bool shuffle_;
  const uint64_t limit_;  // records of a window
  const bool mixes_;
  Rng rng_;  // draws whose turn it is in a mix
  std::vector<Range> ranges_;
  std::vector<FlowRecord> records_;
  uint32_t windows_ = 0;
  size_t turn_ = 0;    // of this range
  uint64_t left_ = 0;  // records of its block
  size_t ranges_ended_ = 0;
  uint64_t begin_progress_ = 0, end_progress_ = 0;
};

}  // namespace downpour::data
