// Stragglers: measures the rates of workers, and chooses which shard gets a backup lease.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "chief/core/work/leases.h"
#include "shared/base/units.h"

namespace downpour::chief {

/// The rate of each worker in a pass, in bytes of input. Time without a lease is not counted. Older
/// observations lose weight.
class WorkerPaces {
 public:
  /// Records that the worker has a lease from now on.
  void busy(int64_t now_ns, Incarnation worker);
  /// Records that the worker has no lease from now on.
  void idle(int64_t now_ns, Incarnation worker);
  /// Records progress of the worker.
  void advanced(int64_t now_ns, Incarnation worker, uint64_t bytes);
  void forget(Incarnation worker) { paces_.erase(worker); }

  /// Returns the rate in bytes per nanosecond, which may be 0. None until the worker was busy for
  /// kMeasureNs.
  std::optional<double> rate(int64_t now_ns, Incarnation worker) const;
  /// Return the sum and the mean over the workers that have a rate; 0 if there are none.
  double total(int64_t now_ns) const;
  double mean(int64_t now_ns) const;

  static constexpr int64_t kMeasureNs = kSecond;
  static constexpr int64_t kMemoryNs = 10 * kSecond;  // older observations lose weight

 private:
  struct Pace {
    int64_t since_ns = 0;
    int64_t idle_ns = -1;  // when it lost its last lease; -1: busy
    double bytes = 0;
  };
  static double rate_of(int64_t now_ns, const Pace& pace);
  static bool measured(int64_t now_ns, const Pace& pace);

  std::map<Incarnation, Pace> paces_;
};

/// Input of the decisions below.
struct PassView {
  const LeaseTable& table;
  const WorkerPaces& paces;
  std::function<uint64_t(uint32_t shard)> bytes_of;
  int64_t now_ns = 0;
};

/// Chooses the shard for a backup lease to `asker`, which found no free shard. It is the shard
/// whose only holder needs longest, if that is more than twice the time that `asker` needs. Returns
/// none if a backup lease would not help.
std::optional<uint32_t> choose_backup(const PassView& pass, Incarnation asker);

/// Returns false if this worker already holds shards, and would end one more only after all workers
/// together could finish the pass. `bytes_left` are the bytes of the pass that are not done. This
/// keeps a slow worker from delaying the end of a pass.
bool may_hold_more(const PassView& pass, Incarnation worker, uint64_t bytes_left);

}  // namespace downpour::chief
