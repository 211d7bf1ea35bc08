// ReaderTuner: finds out during training how many shards a worker reads at the same time, and how
// many batches it reads ahead.
#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/units.h"

namespace downpour::worker {

struct ReaderLimits {
  uint32_t shards = 2;   // read at the same time, one thread each
  uint32_t batches = 4;  // ready and not yet taken
  bool operator==(const ReaderLimits&) const = default;
};

/// Sums since the readers started.
struct ReaderTotals {
  uint64_t batches = 0;      // taken
  uint64_t batch_bytes = 0;  // memory of the taken batches
  int64_t starved_ns = 0;    // time in which a batch was wanted and none was ready
  int64_t full_ns = 0;       // time for which readers waited for room, summed
  int64_t reading_ns = 0;    // time for which readers read, summed
  int64_t runnable_ns = 0;   // of that: running or waiting for a processor; 0: not known
};

/// Increases the limits as long as that pays. If the worker waits for batches, the tuner doubles
/// the number of shards that are read at once. If that brings no more batches, it goes back, and
/// waits before the next trial, longer each time. Readers that wait for nothing but a processor do
/// not become more than there are processors. If readers wait for room and the worker waits for
/// batches in the same interval, both come in bursts. Then the tuner keeps more batches ready. If
/// nothing waits, nothing changes.
class ReaderTuner {
 public:
  /// Upper limits. If they equal the start values, the job fixes the limits.
  struct Bounds {
    uint32_t shards = 16;
    uint32_t batches = 256;
    uint64_t bytes = 256 * kMiB;  // of ready batches
    uint32_t processors = 0;      // 0: not known
  };
  ReaderTuner(ReaderLimits start, Bounds bounds) : limits_(start), bounds_(bounds) {}

  const ReaderLimits& limits() const { return limits_; }
  /// Evaluates the totals. Call it regularly. Returns the new limits if they change.
  std::optional<ReaderLimits> on_totals(int64_t now_ns, const ReaderTotals& totals);

 private:
  struct Trial {
    uint32_t shards;  // before the trial
    double rate;      // batches per second before the trial
  };
  void end_trial(int64_t now_ns, double rate, double starved, const ReaderTotals& totals);
  bool wants_more_batches(const ReaderTotals& totals, int64_t interval_ns) const;
  bool may_pay(const ReaderTotals& totals) const;

  ReaderLimits limits_;
  Bounds bounds_;
  ReaderTotals last_;
  int64_t last_ns_ = 0;
  bool settling_ = true;  // the next interval still shows the previous limits
  std::optional<Trial> trial_;
  int64_t pause_ns_ = 2 * kSecond;
  int64_t try_at_ns_ = 0;
};

}  // namespace downpour::worker
