// Reader tuner: how many shards a worker reads at once and how many batches ahead, found out while
// it trains.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/units.h"

namespace downpour::worker {

struct ReaderLimits {
  uint32_t shards = 2;   // read at once, a thread each
  uint32_t batches = 4;  // ready and not yet taken
  bool operator==(const ReaderLimits&) const = default;
};

/// Sums since the readers began.
struct ReaderTotals {
  uint64_t batches = 0;      // taken
  uint64_t batch_bytes = 0;  // memory of these
  int64_t starved_ns = 0;    // a batch was wanted, and none ready
  int64_t full_ns = 0;       // readers waited for room, all together
  int64_t reading_ns = 0;    // readers read, all together
  int64_t runnable_ns = 0;   // of that: not waiting for anything but a processor; 0: not known
};

/// Climbs as long as it pays: where batches are waited for, more shards are read at once, and fewer
/// again if no more batches come of it; then it waits, longer each time, before it tries anew. Of
/// readers that wait for nothing but a processor no more are tried than there are processors for.
/// Where readers wait for room and batches are waited for in the same interval, both come in
/// bursts: more batches are kept ready. Where nothing is waited for, nothing changes.
class ReaderTuner {
 public:
  /// What must not be exceeded; equal to the start: fixed by the job.
  struct Bounds {
    uint32_t shards = 16;
    uint32_t batches = 256;
    uint64_t bytes = 256 * kMiB;  // of batches ready
    uint32_t processors = 0;      // 0: not known
  };
  ReaderTuner(ReaderLimits start, Bounds bounds) : limits_(start), bounds_(bounds) {}

  const ReaderLimits& limits() const { return limits_; }
  /// Call it every now and then. Other limits, where they are to change.
  std::optional<ReaderLimits> on_totals(int64_t now_ns, const ReaderTotals& totals);

 private:
  struct Trial {
    uint32_t shards;  // before it
    double rate;      // batches a second, before it
  };
  void end_trial(int64_t now_ns, double rate, double starved, const ReaderTotals& totals);
  bool wants_more_batches(const ReaderTotals& totals, int64_t interval_ns) const;
  bool may_pay(const ReaderTotals& totals) const;

  ReaderLimits limits_;
  Bounds bounds_;
  ReaderTotals last_;
  int64_t last_ns_ = 0;
  bool settling_ = true;  // what comes next is still of other limits
  std::optional<Trial> trial_;
  int64_t pause_ns_ = 2 * kSecond;
  int64_t try_at_ns_ = 0;
};

}  // namespace downpour::worker
