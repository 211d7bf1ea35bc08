// LoadMeter: which partitions are asked for how much. It looks at one pull of many, so that it
// costs next to nothing; pushes are as their pulls were.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/bits.h"
#include "shared/base/hash.h"
#include "shared/wire/messages.h"

namespace downpour::ps {

class LoadMeter {
 public:
  explicit LoadMeter(uint32_t partition_count) : rows_(partition_count), bytes_(partition_count) {}

  /// Whether the next pull is to be counted. (By a hash: pulls come in rhythms.)
  bool looks() { return mix64(++pulls_) % kPullsPerLook == 0; }
  /// A key of a pull that is counted, for all of those that are not.
  void count(PartitionId p, uint64_t bytes, uint64_t times) {
    rows_[raw(p)] += kPullsPerLook * times;
    bytes_[raw(p)] += kPullsPerLook * times * bytes;
  }
  /// What was counted of these since the last call; all begins anew.
  std::vector<wire::PartitionLoad> take(const Bits& owned) {
    std::vector<wire::PartitionLoad> loads;
    for_each(owned, [&](PartitionId p) {
      if (rows_[raw(p)] > 0 && loads.size() < wire::kLoadsMax)
        loads.push_back({p, rows_[raw(p)], bytes_[raw(p)]});
    });
    rows_.assign(rows_.size(), 0);
    bytes_.assign(bytes_.size(), 0);
    return loads;
  }

 private:
  static constexpr uint64_t kPullsPerLook = 8;
  uint64_t pulls_ = 0;
  std::vector<uint64_t> rows_, bytes_;  // by partition
};

}  // namespace downpour::ps
