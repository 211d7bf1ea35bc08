// LoadMeter: estimates how many rows and bytes of each partition are requested. It samples one pull
// in eight, so it costs almost nothing. Pushes are estimated from their pulls.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/core/bits.h"
#include "shared/base/hash.h"
#include "shared/wire/member_messages.h"

namespace downpour::ps {

class LoadMeter {
 public:
  explicit LoadMeter(uint32_t partition_count) : rows_(partition_count), bytes_(partition_count) {}

  /// Whether to count the next pull. A hash decides, because pulls come in regular patterns.
  bool looks() { return mix64(++pulls_) % kPullsPerLook == 0; }
  /// Counts a key of a sampled pull, weighted to stand for the pulls that are not sampled.
  void count(PartitionId p, uint64_t bytes, uint64_t times) {
    rows_[raw(p)] += kPullsPerLook * times;
    bytes_[raw(p)] += kPullsPerLook * times * bytes;
  }
  /// Returns the load of these partitions since the last call, and resets all counts.
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
