#include "ps/core/partition_rows.h"

#include <algorithm>

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
  const bool is_open = newest.count < newest.room;  // then it stays first
  uint32_t& link = is_open ? newest.next : head;
  if (link != kNone) {
    Run& closed = runs_[link];
    if (row == closed.first + closed.room || row + 1 == closed.first) {
      closed.first = std::min(closed.first, row);
      closed.count = ++closed.room;
      return;
    }
  }
  const uint32_t next = link;
  const uint32_t made = make({row, 1, 1, next});
  (is_open ? runs_[head].next : head) = made;
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
