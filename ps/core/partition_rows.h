// PartitionRows: which rows of a table belong to which partition, as runs of row numbers.
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
/// partition will need later, so that they lie together. A run takes 16 bytes, and nothing is ever
/// moved.
class PartitionRows {
 public:
  static constexpr uint64_t kRowBytesMax = 16;  // a run with a single row

  /// Begins with empty lists for this number of partitions.
  void begin(uint32_t partitions) { heads_.assign(partitions, kNone); }
  bool begun() const { return !heads_.empty(); }

  /// Adds a row that the partition uses.
  void add(PartitionId partition, uint32_t row);
  /// Opens a run: rows [first, first + room) belong to the partition, and take() returns them one
  /// by one.
  void open(PartitionId partition, uint32_t first, uint32_t room);
  /// Takes the next row of the open run. Returns false if there is none.
  bool take(PartitionId partition, uint32_t& row);
  /// Empties the list of the partition. Calls visit(RowRun) for each run, including the unused room
  /// of the open one.
  template <typename Visit>
  void drop(PartitionId partition, Visit&& visit) {
    for (uint32_t n = std::exchange(heads_[raw(partition)], kNone); n != kNone;) {
      Run& run = runs_[n];
      visit(RowRun{run.first, run.room});
      n = std::exchange(run.next, std::exchange(free_, n));
    }
  }
  /// Calls visit(RowRun) for the rows that were taken.
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
    uint32_t next;  // index into runs_
  };
  static_assert(sizeof(Run) == kRowBytesMax);
  uint32_t make(const Run& run);

  std::vector<uint32_t> heads_;  // by partition; only the first run may have room
  std::deque<Run> runs_;         // a deque grows without copying
  uint32_t free_ = kNone;        // the first unused one
};

}  // namespace downpour::ps
