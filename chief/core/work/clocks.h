// Clocks: how far each worker is, and the floor that bounds how far the workers run apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "chief/core/events.h"
#include "chief/core/work/leases.h"

namespace downpour::chief {

/// With bounded staleness, a worker's clock is the number of its trained batches that every
/// partition has acknowledged. The floor is the lowest clock of the workers that hold a training
/// lease. It never decreases, because a worker that gets a lease starts at the floor or above it.
class Clocks {
 public:
  explicit Clocks(const ChiefConfig& config);

  bool are_bounded() const { return staleness_.has_value(); }
  uint64_t floor() const { return floor_; }
  /// Records that the chief begins to grant leases. If it continues a run (a term above 1), and may
  /// have workers of an earlier chief (not ChiefConfig::local), it computes no floor for one lease
  /// time from now on. During this time, take() adopts the highest floor that a worker reports,
  /// because the earlier chief has published it; and every lease of the earlier chief is reported
  /// or expires.
  void begin(int64_t now_ns);
  /// Begins a pass of the training: the time for which the floor has not risen counts from now on.
  void begin_pass(int64_t now_ns) { raised_ns_ = std::max(raised_ns_, now_ns); }

  /// Takes a worker's report. A clock counts as at most floor + bound + 1, which no correct worker
  /// exceeds.
  void take(int64_t now_ns, Incarnation worker, const wire::Clock& clock);
  /// Returns the message that sends the floor to a worker. It also confirms the worker's newest
  /// report, by the time in that report.
  wire::Floor floor_for(Incarnation worker) const;
  /// Raises the clock of a worker that gets a lease to the floor, if it is lower.
  void start(Incarnation worker);
  /// Begins a pause in which a worker gets no training lease, so that others compute its shards. It
  /// lasts lease_stall_ns, and each later pause twice as long, up to 64 * lease_stall_ns.
  void pause(int64_t now_ns, Incarnation worker);
  /// Returns false during a pause of the worker.
  bool may_lease(int64_t now_ns, Incarnation worker) const;
  /// Forgets a worker that is gone.
  void forget(Incarnation worker) { workers_.erase(worker); }
  /// Raises the floor if possible, and returns it if it has risen. `table` has the leases of the
  /// training pass.
  std::optional<uint64_t> raise(int64_t now_ns, const LeaseTable& table);
  /// Returns the workers that hold leases and have kept the floor from rising for longer than
  /// ChiefConfig::lease_stall_ns. The caller must revoke their leases. If another worker with
  /// leases is above the floor, this call also pauses the returned workers, as pause() does.
  std::vector<Incarnation> slow(int64_t now_ns, const LeaseTable& table);

 private:
  struct Worker {
    uint64_t clock = 0;
    bool reported = false;  // the clock is known: by a report, or by start()
    int64_t report_ns = 0;  // Clock::sent_ns of the newest report
    int64_t paused_until_ns = 0;
    uint32_t pauses = 0;
  };

  std::optional<uint64_t> staleness_;
  int64_t lease_ns_, stall_ns_;
  int64_t learns_until_ns_;
  uint64_t floor_ = 0;
  // The newest time at which the floor rose, no worker held a lease, slow() returned workers, or a
  // pass began.
  int64_t raised_ns_ = 0;
  std::map<Incarnation, Worker> workers_;
};

}  // namespace downpour::chief
