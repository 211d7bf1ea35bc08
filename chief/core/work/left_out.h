// LeftOut: decides which replicas move to another worker because steps leave them out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "chief/core/work/leases.h"
#include "shared/base/ids.h"
#include "shared/base/units.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// With backups, a step leaves out the replicas whose batches come last. A replica moves when two
/// steps in a row have left it out; otherwise the replica of a slow worker would never advance. A
/// worker that has contributed no batch of its shard yet may still be reading it, or computing
/// another replica, so it has kFirstBatchSteps and kFirstBatchNs for its first batch. Each move
/// from a worker without a batch doubles both. Otherwise a shard whose reading takes longer than
/// two steps would move from worker to worker forever. A worker that has lost two replicas without
/// a batch in between is too slow: it must pause, so that it does not get the last shards of an
/// epoch.
class LeftOut {
 public:
  explicit LeftOut(uint32_t replicas) : replicas_(replicas) {}

  /// A replica that must move from its worker.
  struct Move {
    uint32_t replica = 0;
    Incarnation worker{};
    bool pauses = false;  // the worker must pause
    bool operator==(const Move&) const = default;
  };
  /// Counts a step. Call it once for each step, when the step is committed. Returns the replicas
  /// that must move.
  std::vector<Move> count(int64_t now_ns, const LeaseTable& table, const wire::Commit& commit);

 private:
  static constexpr uint32_t kFirstBatchSteps = 4;
  static constexpr int64_t kFirstBatchNs = kSecond;
  static constexpr uint32_t kDoublingsMax = 6;

  struct Replica {
    std::optional<uint32_t> shard;      // the first one that has not ended
    std::optional<Incarnation> worker;  // that holds the shard; none: it waits for a worker
    int64_t since_ns = 0;               // when the worker was first seen to hold the shard
    bool contributes = false;           // a step had a batch of this shard from this worker
    uint32_t in_a_row = 0;              // steps that have left the replica out
    uint32_t vain_moves = 0;            // from workers without a batch, since its last batch
  };
  std::vector<Replica> replicas_;
  std::map<Incarnation, uint32_t> vain_moves_;  // of each worker, since its last batch
};

}  // namespace downpour::chief
