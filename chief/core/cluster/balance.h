// Balance: the load of each ps core, as the cores report it, and which partitions a busy core
// offloads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "chief/core/cluster/ownership.h"
#include "shared/wire/member_messages.h"

namespace downpour::chief {

/// Load of a ps core, averaged over some seconds.
struct CoreWork {
  struct Share {
    PartitionId partition{};
    double work = 0;  // per second, in bytes: bytes transferred, plus a constant for each row
    bool operator==(const Share&) const = default;
  };
  double busy = 0;                // share of the time that the core was busy
  std::vector<Share> partitions;  // ascending
};

/// Partitions to move from a busy core to the least busy one.
struct Offload {
  size_t source = 0, target = 0;  // indices into `cores`
  std::vector<PartitionId> partitions;
  bool operator==(const Offload&) const = default;
};

struct OffloadLimits {
  double busy_min = 0.5;         // a core that is less busy never offloads
  double apart_min = 0.25;       // minimum difference between the busy shares of source and target
  double gain_min = 0.02;        // minimum share of the source's time that is saved
  uint32_t partitions_max = 64;  // per offload
};

/// Chooses the fewest partitions that equalize the busiest and the least busy core. Returns none if
/// no core is busy enough, or if the available partitions would only make another core busy.
/// Afterwards the target is not busier than the source, so the next call does not move anything
/// back. The source keeps at least half of an even share of the partitions; with fewer, rebalancing
/// would undo the move.
std::optional<Offload> choose_offload(std::span<const CoreWork> cores,
                                      const OffloadLimits& limits = {});

/// Load reports of the cores since ownership last changed. The first report of a core is ignored,
/// because it covers time before the change.
class WorkReports {
 public:
  /// Discards all reports, because ownership has changed.
  void reset() { cores_.clear(); }
  void forget(PsKey core) { cores_.erase(core); }
  void take(PsKey core, const wire::Heartbeat& heartbeat);
  /// Returns the average load, or none while there are too few reports.
  std::optional<CoreWork> work(PsKey core) const;
  /// Returns true if a report arrived since the last call.
  bool changed() { return std::exchange(changed_, false); }

 private:
  struct Core {
    uint32_t reports = 0;
    double elapsed_ns = 0, busy_ns = 0;
    std::map<PartitionId, double> work;
  };
  std::map<PsKey, Core> cores_;
  bool changed_ = false;
};

}  // namespace downpour::chief
