// Who is slow, and what to do about it: measured rates, and which shard out should have a second
// worker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "chief/core/leases.h"
#include "shared/base/units.h"

namespace downpour::chief {

/// How fast each worker goes through a pass, in bytes of input. Time without a lease is not
/// counted, and what is long ago counts less and less.
class WorkerPaces {
 public:
  /// The worker has something in hand from now on.
  void busy(int64_t now_ns, Incarnation worker);
  /// It has nothing left to do.
  void idle(int64_t now_ns, Incarnation worker);
  /// It got so much further.
  void advanced(int64_t now_ns, Incarnation worker, uint64_t bytes);
  void forget(Incarnation worker) { paces_.erase(worker); }

  /// Bytes per nanosecond, also 0; none where the worker was not busy for kMeasureNs yet.
  std::optional<double> rate(int64_t now_ns, Incarnation worker) const;
  /// Sum and mean over the workers that have a rate; 0 where none has.
  double total(int64_t now_ns) const;
  double mean(int64_t now_ns) const;

  static constexpr int64_t kMeasureNs = kSecond;
  static constexpr int64_t kMemoryNs = 10 * kSecond;  // what a rate is the mean of, at least

 private:
  struct Pace {
    int64_t since_ns = 0;
    int64_t idle_ns = -1;  // since when it has nothing to do; -1: busy
    double bytes = 0;
  };
  static double rate_of(int64_t now_ns, const Pace& pace);
  static bool measured(int64_t now_ns, const Pace& pace);

  std::map<Incarnation, Pace> paces_;
};

/// What the decisions below look at.
struct PassView {
  const LeaseTable& table;
  const WorkerPaces& paces;
  std::function<uint64_t(uint32_t shard)> bytes_of;
  int64_t now_ns = 0;
};

/// The shard that `asker`, who found none free, should be given a second lease on: the one whose
/// only holder will need longest, if that is more than twice as long as the asker would need. None:
/// nothing would be won.
std::optional<uint32_t> choose_backup(const PassView& pass, Incarnation asker);

/// False where this worker has work in hand already and would end another shard only after all
/// others together have ended the pass, of which `bytes_left` are not done: near the end a slow
/// worker holds no more than what it is at.
bool may_hold_more(const PassView& pass, Incarnation worker, uint64_t bytes_left);

}  // namespace downpour::chief
