// PredictionRun: puts predictions into the order of the data. A shard counts when one attempt at it
// is complete.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "chief/core/events.h"

namespace downpour::chief {

class PredictionRun {
 public:
  enum class Verdict : uint8_t {
    kKept,
    kRepeated,  // the batch was received before
    kBroken,    // the attempt ended without some batches: revoke the lease, grant the shard again
    kWhole,     // the attempt is complete
  };
  /// Adds a report of the attempt that holds the shard's lease. Batches may come in any order,
  /// because a later one may need fewer ps; the report that ends the attempt comes last.
  Verdict take(const wire::PredictReport& report, Bytes&& values);
  /// Drops an attempt that will not be completed.
  void drop(uint32_t shard) { open_.erase(shard); }
  /// Returns the batches of complete shards that are next in order.
  std::vector<PredictionBatch> next_in_order();

  uint32_t first_missing() const { return emitted_; }
  uint64_t records() const { return records_; }

 private:
  struct Attempt {
    uint32_t attempt = 0;
    std::map<uint32_t, PredictionBatch> batches;
  };
  std::map<uint32_t, Attempt> open_;
  std::map<uint32_t, std::vector<PredictionBatch>> whole_;
  uint32_t emitted_ = 0;  // number of shards that were returned
  uint64_t records_ = 0;
};

}  // namespace downpour::chief
