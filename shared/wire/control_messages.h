// Control messages: between the chief and a ps core, about completion, checkpoints, moves,
// synchronous steps and the end of the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/ids.h"
#include "shared/metrics/sums.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/member_messages.h"

namespace downpour::wire {

struct StatusRequest {
  uint64_t round = 0;
  uint32_t epoch = 0;
  uint32_t shards = 0;  // in that epoch
  // of any epoch; every partition stores them before the core answers
  std::vector<QuarantineMarker> markers = {};
  bool markers_known = true;  // no other markers exist
  bool operator==(const StatusRequest&) const = default;
};
struct ShardWatermark {
  uint32_t shard = 0;
  uint32_t watermark = 0;  // smallest over the core's partitions; ended shards are not listed
  bool operator==(const ShardWatermark&) const = default;
};
struct Interval {  // [begin, end)
  uint32_t begin = 0, end = 0;
  bool operator==(const Interval&) const = default;
};
struct PartitionStatus {
  PartitionId partition{};
  ViewId ownership_generation;
  uint64_t version = 0;
  uint32_t shards_ended = 0;  // in the requested epoch
  ShardCounts counts;         // sums over those shards; 0 if the epoch is sealed
  uint64_t records_hash = 0;  // sum over their records; 0: not known
  bool operator==(const PartitionStatus&) const = default;
};
struct StatusReply {
  uint64_t round = 0;
  uint32_t epoch = 0;
  ViewId view;  // newest that this core knows
  std::vector<PartitionStatus> partitions;
  // Shards that have ended at every partition of this core, ascending. The list may be cut short.
  std::vector<Interval> ended;
  // Shards begun at some partition and not ended at all of them. A hint; the list may be cut short.
  std::vector<ShardWatermark> open;
  // training metrics of the epoch that are stored in this core's partitions
  std::vector<OutputSums> metrics;
  // not empty: the job must fail, for example because the input is not deterministic
  std::string failure;
  // Of any epoch. A flag is set if it holds at one or more partitions of this core.
  std::vector<QuarantineMarker> markers = {};
  // Shards begun or ended at some partition of this core, ascending. If the list is too long, its
  // last interval extends to the end of the last begun shard, so it may contain shards that have
  // not begun.
  std::vector<Interval> begun = {};
  bool operator==(const StatusReply&) const = default;
};

/// Chief -> ps core: write all owned partitions into `folder`, in one file per core, and answer
/// with Saved. If `base` is set, an image may be incremental: it then holds only the rows that
/// changed since the partition's image in the published checkpoint `base`.
struct Save {
  ViewId checkpoint;  // (term, n) of the manifest to be written
  std::string folder;
  ViewId base;  // {}: all images are full
  uint32_t partial_epoch = 0;
  // ended shards of partial_epoch, if the job ends inside that epoch; 0: it does not
  uint32_t partial_shards = 0;
  uint64_t step = 0;  // synchronous training: the next step of every partition; 0: any
  bool operator==(const Save&) const = default;
};
struct Saved {
  ViewId checkpoint;
  bool ok = true;
  std::string error;
  std::vector<ImageRef> images;
  uint64_t rows = 0;
  // some image does not hold exactly the ended shards that Save requested
  bool beyond_partial_epoch = false;
  uint32_t sealed_epochs = 0;  // highest number of sealed epochs of any image
  bool operator==(const Saved&) const = default;
};
/// Chief -> ps core: all epochs below `epochs` are sealed. Drop their watermarks and answer
/// "already applied" to their parts from now on.
struct Sealed {
  uint32_t epochs = 0;
  bool operator==(const Sealed&) const = default;
};
/// Chief -> ps core, to move partitions: stop serving these partitions and write their images into
/// `folder`. Answered by Frozen. The partitions do not change until a view with the number
/// `ownership_generation` or higher. If that view names this core, the core serves them again, else
/// it drops them. The target receives them under `ownership_generation`.
struct Freeze {
  ViewId ownership_generation;
  std::vector<PartitionId> partitions;
  std::string folder;
  bool operator==(const Freeze&) const = default;
};
struct Frozen {
  ViewId ownership_generation;
  bool ok = true;
  std::string error;  // if !ok: nothing is frozen
  // In files of the folder. If the message has a values frame, the images lie in that frame and
  // `file` has no meaning.
  std::vector<ImageRef> images;
  bool operator==(const Frozen&) const = default;
};
/// Any member -> chief: this process received a stop signal. If `downpour train` started the
/// process, the chief stops the job. Otherwise it moves the partitions of a leaving ps to other ps
/// and then stops that ps; if they cannot be moved, it stops the job. Repeated with each heartbeat.
struct Leave {
  Incarnation incarnation{};
  // number of the signal: 2 is SIGINT; any other number counts as SIGTERM (15)
  uint32_t signal = 0;
  bool operator==(const Leave&) const = default;
};
/// Chief -> member: end this process, because the job has ended, or because a leaving ps no longer
/// owns partitions. Code 0 means success. Answered by Goodbye.
struct Stop {
  int32_t code = 0;
  std::string reason;
  bool operator==(const Stop&) const = default;
};
struct Goodbye {
  Heartbeat last;
  bool operator==(const Goodbye&) const = default;
};

// ---- synchronous steps

/// The batch that a replica contributes to a step.
struct StepPart {
  uint32_t replica = 0;  // with backups the shard, which may pass to another replica
  BatchId batch;
  auto operator<=>(const StepPart&) const = default;
};
/// ps core -> chief: the parts of the next step that every partition of this core has staged. Valid
/// under the view in the envelope. Sent when as many are complete as the last step had, when a
/// shard ends, after a new view, and with each heartbeat.
struct Staged {
  uint64_t step = 0;
  std::vector<StepPart> parts;  // ascending by replica
  uint64_t expects = 0;         // version of the newest Expect; 0: none is known
  bool operator==(const Staged&) const = default;
};
/// Chief -> ps core: apply the sum of exactly these parts as one step, at all partitions. Answered
/// by Committed, also if the step is already applied. Not answered by a core that cannot apply it.
/// If the norm of the gradients is limited, a request for the norms of the sum comes first.
struct Commit {
  uint64_t step = 0;
  std::vector<StepPart> parts;  // ascending by replica
  bool measure = false;         // answer with the norms, and apply nothing
  std::vector<float> factors;   // of the sum: one, or one of each variable; empty: all are 1
  bool operator==(const Commit&) const = default;
};
/// The squared norms are doubles in the values frame: by partition, then by group of variables.
struct Committed {
  uint64_t step = 0;
  bool measured = false;                // answers Commit::measure; otherwise the step is applied
  std::vector<PartitionId> partitions;  // of the norms, ascending
  bool operator==(const Committed&) const = default;
};
/// Chief -> ps core: the current shards of all replicas that have shards left. The core adds up the
/// gradients of a step in this order as they arrive. Not answered; Staged::expects says which one
/// the core knows. Not sent in jobs with backups.
struct Expect {
  uint64_t version = 0;         // increases
  std::vector<StepPart> parts;  // ascending by replica; of `batch` only epoch and shard count
  bool operator==(const Expect&) const = default;
};

}  // namespace downpour::wire
