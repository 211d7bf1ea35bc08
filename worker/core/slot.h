// Slot: one batch in a worker, from the moment when it is taken from its reader until every
// partition has acknowledged it.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/partition_set.h"
#include "shared/wire/push_messages.h"
#include "worker/core/events.h"

namespace downpour::worker {

struct PullPart {
  RequestId request{};  // the newest one; also names the handle
  bool done = false;
  int64_t deadline_ns = 0;
  uint32_t attempt = 0;
  Bytes values;
  bool copied = false;   // `values` use no buffer of a ps
  uint64_t version = 0;  // synchronous training: of all partitions of the ps core
};

struct PushPart {
  RequestId request{};
  Incarnation to{};
  wire::Push push;
  Bytes keys, values;
  int64_t deadline_ns = 0;
  uint32_t attempt = 0;
};

/// A batch, or the shard-end marker of a shard (batch == null).
struct Slot {
  // A held batch waits until its pull is allowed.
  enum class State : uint8_t { kHeld, kPulling, kComputing, kComputed, kPushing };

  uint64_t id = 0;
  wire::Lease lease;
  BatchId batch_id;
  PreparedBatchPtr batch;
  State state = State::kHeld;
  std::vector<PullPart> pulls;   // by message of the batch's PullPlan
  std::vector<Bytes> gradients;  // the same
  std::vector<OutputSums> sums;
  std::vector<PushPart> pushes;   // not answered
  wire::PartitionSet unresolved;  // partitions that have not acknowledged the batch
  bool waited = false;            // PullPolicy has held it
  int64_t pull_at_ns = 0;         // held at least until then
  int64_t waits_until_ns = 0;     // held for other batches of this worker, see BackupOrder
  int64_t pulled_ns = 0;          // when the pull began
  bool left_out = false;          // synchronous training: a step was applied without the batch
  uint32_t holds = 0;             // how often the batch was held again since it was computed
  uint64_t step = 0;              // synchronous training: for which the values were pulled
  uint64_t awaited_step = 0;      // held: the step for which the pulls wait at the ps; 0: none
  bool rebuild = false;           // regroup the unresolved parts and send them with keys
  int64_t rebuild_at_ns = 0;
  bool all_already_applied = true;
  uint32_t watermark_min = UINT32_MAX;

  bool is_end() const { return batch == nullptr; }
  bool trains() const { return lease.purpose == wire::Purpose::kTrain; }
  bool quarantined() const { return batch != nullptr && batch->batch.quarantined; }
};

}  // namespace downpour::worker
