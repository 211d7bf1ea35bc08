// PartitionRows: which rows of a table are a partition's, as runs of row numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "shared/base/ids.h"

namespace downpour::ps {

/// Rows [first, first + count).
struct RowRun {
  uint32_t first = 0, count = 0;
  bool operator==(const RowRun&) const = default;
};

/// A list of runs for each partition, the newest first. A run is opened with room for rows that the
/// partition will need, so that they lie together. 16 bytes a run, and nothing is ever moved.
class PartitionRows {
 public:
  static constexpr uint64_t kRowBytesMax = 16;  // a run, if it has a single row

  /// No row is listed yet. `partitions`: their number.
  void begin(uint32_t partitions) { heads_.assign(partitions, kNone); }
  bool begun() const { return !heads_.empty(); }

  /// A row of the partition, which has it now.
  void add(PartitionId partition, uint32_t row);
  /// Rows [first, first + room) are the partition's, to be taken one by one.
  void open(PartitionId partition, uint32_t first, uint32_t room);
  /// The next row of the open run; false where there is none.
  bool take(PartitionId partition, uint32_t& row);
  /// Lists nothing for the partition any more. visit(RowRun): what it had, with the room of its
  /// open run.
  template <typename Visit>
  void drop(PartitionId partition, Visit&& visit) {
    for (uint32_t n = std::exchange(heads_[raw(partition)], kNone); n != kNone;) {
      Run& run = runs_[n];
      visit(RowRun{run.first, run.room});
      n = std::exchange(run.next, std::exchange(free_, n));
    }
  }
  /// visit(RowRun) for the rows that were taken.
  template <typename Visit>
  void for_each(PartitionId partition, Visit&& visit) const {
    for (uint32_t n = heads_[raw(partition)]; n != kNone; n = runs_[n].next) {
      if (runs_[n].count > 0) visit(RowRun{runs_[n].first, runs_[n].count});
    }
  }
  uint64_t bytes() const {
    return heads_.capacity() * sizeof(uint32_t) + runs_.size() * sizeof(Run);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Run {
    uint32_t first, count, room;
    uint32_t next;  // in runs_
  };
  static_assert(sizeof(Run) == kRowBytesMax);
  uint32_t make(const Run& run);

  std::vector<uint32_t> heads_;  // by partition; the first run alone may have room
  std::deque<Run> runs_;         // a deque: it grows without a copy
  uint32_t free_ = kNone;        // the first of those in no list
};

}  // namespace downpour::ps
