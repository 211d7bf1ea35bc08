// Balance: how much each ps core has to do, as the cores say, and which partitions a hot one gives
// away.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "chief/core/ownership.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// What a ps core does, averaged over some seconds.
struct CoreWork {
  struct Share {
    PartitionId partition{};
    double work = 0;  // a second, in bytes: those that travel, and some for each row
    bool operator==(const Share&) const = default;
  };
  double busy = 0;                // share of the time in which it worked
  std::vector<Share> partitions;  // ascending
};

/// Partitions from a hot core to the one that has least to do.
struct Offload {
  size_t source = 0, target = 0;  // into the cores
  std::vector<PartitionId> partitions;
  bool operator==(const Offload&) const = default;
};

struct OffloadLimits {
  double busy_min = 0.5;    // a core that rests for longer is not hot, whatever others do
  double apart_min = 0.25;  // between the busy shares of source and target; less is left as it is
  double gain_min = 0.02;   // of the source's time; less is not worth the pauses
  uint32_t partitions_max = 64;  // at once
};

/// What would bring the two cores together, in as few partitions as can be: none where no core is
/// hot, or where what it could give would only make another one hot. After it the target has no
/// more to do than the source, so the next look finds nothing to bring back. No core falls below
/// half of an even share of the partitions: below it they would be evened out again.
std::optional<Offload> choose_offload(std::span<const CoreWork> cores,
                                      const OffloadLimits& limits = {});

/// What the cores have reported since ownership last changed. A report from before, or that began
/// before, counts no more.
class WorkReports {
 public:
  /// Ownership has changed.
  void reset() { cores_.clear(); }
  void forget(PsKey core) { cores_.erase(core); }
  void take(PsKey core, const wire::Heartbeat& heartbeat);
  /// The average; none as long as there are too few reports.
  std::optional<CoreWork> work(PsKey core) const;
  /// Whether something was reported since this was asked last.
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
