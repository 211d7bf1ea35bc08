// Lease messages: between a worker and the chief, about the shards that the worker processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/metrics/sums.h"

namespace downpour::wire {

enum class Purpose : uint8_t { kTrain, kEval, kPredict };

struct LeaseRequest {
  uint32_t wanted = 1;  // leases that the worker could begin now
  bool operator==(const LeaseRequest&) const = default;
};

/// Permission for one worker to process a shard; ends after lease_ns of silence. In training,
/// `shard` is the position in the epoch's order (plan::ShardMap::at() returns its ranges). In eval
/// and predict it is the number of the range itself.
struct Lease {
  Purpose purpose = Purpose::kTrain;
  ShardId shard;
  uint32_t attempt = 0;
  uint32_t first_batch = 0;  // smallest watermark known of any partition (a hint)
  uint64_t plan_hash = 0;
  uint32_t evaluation = 0;                         // id; eval only
  std::vector<uint32_t> quarantined_batches = {};  // quarantined batches of the shard, ascending
  // report each batch before the next one is read, because the shard has failed since its last
  // progress
  bool single_step = false;
  uint32_t replica = 0;  // that the shard belongs to; synchronous training only
  // train only: how often the schedule `plateau` has reduced the learning rate before this epoch
  uint32_t rate_reductions = 0;
  bool operator==(const Lease&) const = default;
};
struct LeaseGrant {
  std::vector<Lease> leases;  // empty: no work now, ask again after retry_ns
  int64_t retry_ns = 0;
  bool operator==(const LeaseGrant&) const = default;
};

/// Counts of one shard as its shard-end marker carries them. A partition sums them over an epoch
/// for the account.
struct ShardCounts {
  uint32_t batches = 0;
  uint64_t read = 0, applied = 0, filtered = 0, skipped = 0, dropped = 0, quarantined = 0;
  // bytes: start of the first record, end of the last one
  uint64_t first_offset = 0, end_offset = 0;
  bool operator==(const ShardCounts&) const = default;
  ShardCounts& operator+=(const ShardCounts& o) {
    batches += o.batches;
    read += o.read;
    applied += o.applied;
    filtered += o.filtered;
    skipped += o.skipped;
    dropped += o.dropped;
    quarantined += o.quarantined;
    return *this;
  }
};

/// Worker -> chief: progress of a lease, which renews it. `ended`: every partition has the
/// shard-end marker.
struct ShardProgress {
  Lease lease;
  uint32_t batches_acked = 0;  // acknowledged by all partitions
  bool ended = false;
  ShardCounts counts;       // if all batches are acknowledged and the end was read; otherwise zeros
  uint64_t bytes_done = 0;  // of the shard's range
  bool operator==(const ShardProgress&) const = default;
};
/// The cause of a shard's failure at a batch, if it decides how the chief reacts.
enum class FailureKind : uint8_t {
  kOther,
  kRecord,         // a record of the batch cannot be read
  kNotFinite,      // the loss or a gradient is not finite
  kMarkersDiffer,  // the ps and the lease disagree about the quarantined batches of the shard
};
struct ShardFailed {
  Lease lease;
  uint32_t batch = 0;
  ErrorCode code = ErrorCode::kBadData;
  std::string what, where, hint, id;
  FailureKind kind = FailureKind::kOther;
  bool operator==(const ShardFailed&) const = default;
};
/// Chief -> worker: the lease has ended. Drop all work on it.
struct LeaseRevoked {
  Lease lease;
  bool operator==(const LeaseRevoked&) const = default;
};

/// Worker -> chief: metrics of a whole evaluation shard. The first report of each (evaluation,
/// shard) counts.
struct EvalReport {
  Lease lease;
  ShardCounts counts;
  std::vector<OutputMetrics> outputs;
  std::vector<OutputMetrics> slices;  // of each of eval.slices: the others, then each value
  bool operator==(const EvalReport&) const = default;
};
/// Worker -> chief: predictions of one batch. Payload: values, [records, width] float32 for each
/// output; in an evaluation, the records with their groups (model/groups.h).
struct PredictReport {
  Lease lease;
  uint32_t batch = 0;
  uint32_t records = 0;
  bool ended = false;  // last batch of the shard; `records` may be 0
  ShardCounts counts;  // if ended
  bool operator==(const PredictReport&) const = default;
};

// With bounded staleness, after each batch and with each heartbeat:

/// Worker -> chief: its clock, and the newest floor that it knows.
struct Clock {
  uint64_t batches = 0;  // trained by this worker and acknowledged by every partition
  uint64_t floor = 0;
  int64_t sent_ns = 0;  // by the worker's clock
  bool operator==(const Clock&) const = default;
};
/// Chief -> worker: the lowest clock of the workers that hold a training lease.
struct Floor {
  uint64_t batches = 0;
  int64_t report_ns = 0;  // Clock::sent_ns of the receiver's newest report; 0: none
  bool operator==(const Floor&) const = default;
};

}  // namespace downpour::wire
