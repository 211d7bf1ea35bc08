// Push messages: pulls and pushes, between a worker and a ps core.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/ids.h"
#include "shared/metrics/sums.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/partition_set.h"

namespace downpour::wire {

/// `keys` keys of one table, in the order of the keys frame. Values travel table by table, and
/// inside a table variable by variable, each [keys, dim] floats (dense: the blocks in order).
struct Section {
  TableId table{};
  uint32_t keys = 0;
  bool operator==(const Section&) const = default;
};

/// Worker -> ps core. Payload: keys frame. Changes no variable at the ps, for any purpose. With
/// keep_handle (train) the ps keeps the rows that it found, for the push that names this request.
struct Pull {
  Incarnation worker{};
  Purpose purpose = Purpose::kTrain;
  bool keep_handle = false;
  std::vector<Section> sections;
  // Synchronous training: the answer waits until this is the core's next step; 0: it does not wait.
  uint64_t step = 0;
  bool operator==(const Pull&) const = default;
};
enum class PullStatus : uint8_t { kOk, kWrongView, kOverloaded };
/// ps core -> worker. Payload if kOk: values frame. `versions` has one entry for each partition
/// that this core owns, ascending.
struct PullReply {
  PullStatus status = PullStatus::kOk;
  ViewId view;  // newest that this core knows; kWrongView: the view that the worker needs
  std::vector<uint64_t> versions;
  bool operator==(const PullReply&) const = default;
};

/// Worker -> ps core: the parts of one batch for the partitions in `covered`, all owned by one
/// core. Payload: keys frame (absent with a handle) and values frame (gradients). A part is applied
/// only if watermark == batch.batch.
struct Push {
  Incarnation worker{};
  BatchId batch;
  uint32_t records = 0;
  uint64_t records_hash = 0;
  // shard-end marker: batch.batch is the number of batches of the shard; no sections
  bool end = false;
  ShardCounts counts;  // shard-end marker only
  PartitionSet covered;
  RequestId handle{};  // pull that this push follows; 0: the keys frame is present
  uint32_t fragment = 0, fragments = 1;  // if several: staged until all have arrived
  // Without a handle: the versions of the covered partitions as PullReply returned them, or empty.
  std::vector<uint64_t> pulled_versions;
  std::vector<Section> sections;
  std::vector<OutputSums> metrics;   // counted by partition (shard mod P), if it is covered
  bool quarantined = false;          // the batch is left out: no records, no sections
  uint32_t batches_quarantined = 0;  // quarantined batches of the shard that the sender knows
  // Synchronous training only. `step`: the step for which the values were pulled (the version of
  // every partition plus one); 0 for a quarantined batch, which pulls nothing.
  uint64_t step = 0;
  uint32_t replica = 0;
  uint32_t rate_reductions = 0;  // as in the lease of the batch
  bool operator==(const Push&) const = default;
};
/// A watermark above every batch: the shard has ended at the partition, or its epoch is sealed.
constexpr uint32_t kShardEnded = UINT32_MAX;
enum class PartStatus : uint8_t {
  kApplied,
  kAlreadyApplied,
  kGap,
  kViewMismatch,
  kUnknownPull,
  kStaged,
  kQuarantined,
  kOtherStep,  // the values were pulled for another step: pull them again
  kSendAgain,  // the ps had no room for the part, and has room now
};
struct PartReply {
  PartitionId partition{};
  PartStatus status = PartStatus::kApplied;
  // number of batches of the shard that the partition has applied, or kShardEnded; valid for
  // kAlreadyApplied, kGap and kQuarantined
  uint32_t watermark = 0;
  bool operator==(const PartReply&) const = default;
};
/// ps core -> worker. `applied` lists the parts that were applied (their watermark is now batch +
/// 1, or kShardEnded after a shard-end marker), `others` all other parts.
struct PushReply {
  BatchId batch;
  PartitionSet applied;
  std::vector<PartReply> others;
  ViewId view;
  bool operator==(const PushReply&) const = default;
};

}  // namespace downpour::wire
