#include "ps/core/partition_rows.h"

#include "shared/base/check.h"

namespace downpour::ps {

uint32_t PartitionRows::make(const Run& run) {
  if (free_ == kNone) {
    runs_.push_back(run);
    return uint32_t(runs_.size() - 1);
  }
  const uint32_t at = free_;
  free_ = runs_[at].next;
  runs_[at] = run;
  return at;
}

void PartitionRows::add(PartitionId partition, uint32_t row) {
  uint32_t& head = heads_[raw(partition)];
  if (head == kNone) {
    head = make({row, 1, 1, kNone});
    return;
  }
  Run& newest = runs_[head];
  if (newest.count < newest.room) {  // the open run stays the first
    newest.next = make({row, 1, 1, newest.next});
  } else if (newest.first + newest.room == row) {
    newest.count = ++newest.room;
  } else {
    head = make({row, 1, 1, head});
  }
}

void PartitionRows::open(PartitionId partition, uint32_t first, uint32_t room) {
  uint32_t& head = heads_[raw(partition)];
  DP_CHECK(head == kNone || runs_[head].count == runs_[head].room, raw(partition));
  head = make({first, 0, room, head});
}

bool PartitionRows::take(PartitionId partition, uint32_t& row) {
  const uint32_t head = heads_[raw(partition)];
  if (head == kNone || runs_[head].count == runs_[head].room) return false;
  row = runs_[head].first + runs_[head].count++;
  return true;
}

}  // namespace downpour::ps
