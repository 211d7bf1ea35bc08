// Clocks: how far each worker is, and the floor that bounds how far the workers run apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "chief/core/events.h"
#include "chief/core/work/leases.h"

namespace downpour::chief {

/// With bounded staleness, a worker's clock is the number of its trained batches that every
/// partition has acknowledged. The floor is the lowest clock of the workers that hold a lease. It
/// never decreases: a worker that gets its first lease starts at the floor.
class Clocks {
 public:
  explicit Clocks(const ChiefConfig& config);

  bool are_bounded() const { return staleness_.has_value(); }
  uint64_t floor() const { return floor_; }
  /// A chief that continues a run raises the floor only after the leases of the earlier chief have
  /// been reported or have expired. begin() starts that time. Until it ends, the workers report the
  /// floor that the earlier chief has published.
  void begin(int64_t now_ns);

  /// Takes a worker's report. The clock counts as at most one more than the bound above the floor,
  /// which no worker exceeds.
  void take(int64_t now_ns, Incarnation worker, const wire::Clock& clock);
  /// Returns the newest floor for a worker. It confirms the worker's newest report.
  wire::Floor floor_for(Incarnation worker) const;
  /// Sets a worker that gets a lease to the floor, unless it is already higher.
  void start(Incarnation worker);
  /// Returns false while a worker gets no lease of the training, because it was slow().
  bool may_lease(int64_t now_ns, Incarnation worker) const;
  /// Forgets a worker that is gone.
  void forget(Incarnation worker) { workers_.erase(worker); }
  /// Returns the new floor if it has risen. `table` has the leases of the training pass.
  std::optional<uint64_t> raise(int64_t now_ns, const LeaseTable& table);
  /// Returns the workers that hold leases and have kept the floor from rising for longer than
  /// ChiefConfig::lease_stall_ns. Their leases must end. If other workers wait for them, they get
  /// new ones only after a pause, which doubles each time.
  std::vector<Incarnation> slow(int64_t now_ns, const LeaseTable& table);

 private:
  struct Worker {
    uint64_t clock = 0;
    bool reported = false;  // or started at the floor
    int64_t report_ns = 0;  // Clock::sent_ns of the newest report
    int64_t paused_until_ns = 0;
    uint32_t pauses = 0;
  };

  std::optional<uint64_t> staleness_;
  int64_t lease_ns_, stall_ns_;
  int64_t learns_until_ns_;
  uint64_t floor_ = 0;
  int64_t raised_ns_ = 0;  // when the floor rose, or when no worker held a lease
  std::map<Incarnation, Worker> workers_;
};

}  // namespace downpour::chief
