// Messages: every message between roles as a plain struct. Cores use only these structs; they use
// neither sockets nor Cap'n Proto. docs/protocol.md specifies the protocol.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/metrics/sums.h"
#include "shared/plan/shard.h"
#include "shared/wire/lease_messages.h"
#include "shared/wire/partition_set.h"

namespace downpour::wire {

constexpr uint16_t kProtocolVersion = 1;
constexpr uint64_t kFrameBytesMax = 1024 * 1024;   // bytes of a payload frame
constexpr uint64_t kHeaderBytesMax = 1024 * 1024;  // bytes of the header frame
// loads in a heartbeat: one for each partition that a job may have
constexpr uint32_t kLoadsMax = 4096;

enum class Role : uint8_t { kChief, kPs, kWorker, kInput };

// ---- membership: control connections, ps core, worker or input process <-> chief

/// A statement of a ps core that it holds a partition. A new chief accepts or rejects it.
struct PartitionClaim {
  PartitionId partition{};
  ViewId ownership_generation;  // as in the Adopt that brought the partition
  uint32_t sealed_epochs = 0;
  bool operator==(const PartitionClaim&) const = default;
};

/// The first message on a control connection; repeated until answered. A ps process sends one for
/// each of its cores.
struct Hello {
  Role role = Role::kWorker;
  uint32_t index = UINT32_MAX;  // UINT32_MAX: the chief assigns one
  uint32_t thread = 0;          // ps: number of the core in its process
  Incarnation incarnation{};
  std::string build;  // version of the sender's build
  std::string host;
  uint32_t pid = 0;
  uint32_t threads = 0;  // worker: compute threads
  // ps: endpoint that answers pulls and pushes; input: endpoint that reads for workers
  std::string endpoint;
  // ps: all partitions that it holds, ascending, so that a new chief can continue with them
  std::vector<PartitionClaim> claims;
  uint64_t plan_hash = 0;       // ps: plan of the newest view that it knows; 0: none yet
  bool holds_unsealed = false;  // ps: claimed partitions hold batches of unsealed epochs
  bool operator==(const Hello&) const = default;
};

/// The chief's answer to Hello, from which the member configures itself. The files are those of the
/// data set, as the chief found them at its start.
struct Welcome {
  uint32_t index = 0;
  std::string job;  // effective job, TOML as job_to_toml() prints it
  std::string base_dir;
  std::string run_dir;
  uint64_t plan_hash = 0;
  uint64_t shard_bytes = 0;  // target size in cut_shards()
  std::vector<plan::FileInfo> train_files;
  std::vector<plan::FileInfo> eval_files;
  int64_t heartbeat_ns = 0;  // interval of heartbeats
  int64_t lease_ns = 0;      // silence that ends a lease
  // upper bound of the shards of a training pass; 0: not set
  uint32_t train_shards = 0;
  bool operator==(const Welcome&) const = default;
};

/// The chief's refusal of this process: another version, a taken index, a wrong role, or an ended
/// job. The process ends.
struct Refused {
  ErrorCode code = ErrorCode::kUnavailable;
  std::string what;
  std::string hint;
  bool operator==(const Refused&) const = default;
};

/// The owner of one partition in a view.
struct Placement {
  uint32_t owner = UINT32_MAX;  // index into View::owners; UINT32_MAX: no owner
  // under which this owner received the partition, or kept it after a cancelled move
  ViewId ownership_generation;
  bool operator==(const Placement&) const = default;
};
/// A ps core that owns partitions.
struct Owner {
  uint32_t index = 0;  // of the ps process
  uint32_t thread = 0;
  Incarnation incarnation{};
  std::string endpoint;
  bool operator==(const Owner&) const = default;
};
/// Chief -> members: the owner of each partition. Accepted if it is newer than the known view.
struct View {
  ViewId id;
  std::vector<Owner> owners;
  std::vector<Placement> partitions;  // one for each partition
  uint64_t plan_hash = 0;             // of the chief that published the view; 0: not known
  bool operator==(const View&) const = default;
};

/// The location of one partition's image. `file` is a plain name in the folder of `checkpoint`. If
/// `checkpoint` is {}, the folder is the one named by the message that contains this reference.
struct ImageRef {
  PartitionId partition{};
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // checksum that a manifest names the image by (XXH3-64)
  uint64_t base = 0;      // checksum of the image that this one builds on; 0: a full image
  // {}: see above; else the image lies in the folder of that checkpoint, a sibling of the folder
  // that the message names
  ViewId checkpoint;
  bool operator==(const ImageRef&) const = default;
};

/// A quarantined batch, or one proposed for quarantine: the job continues without its gradient, and
/// its records count as quarantined. Partitions store markers with their other state until the
/// epoch is sealed (docs/protocol.md).
struct QuarantineMarker {
  BatchId batch;
  bool withdrawn = false;  // the batch counts like any other batch again
  // in replies and images: the batch had been applied already when the marker arrived
  bool had = false;
  // in replies: the watermark is past the batch, and its gradient was left out
  bool passed = false;
  bool operator==(const QuarantineMarker&) const = default;
};

/// Chief -> ps core: hold these partitions under `ownership_generation`, empty or restored from
/// images. Answered by Adopted. The chief publishes the view that names the core only after that
/// answer.
struct Adopt {
  ViewId ownership_generation;
  uint32_t sealed_epochs = 0;
  std::vector<PartitionId> partitions;
  std::string folder;  // checkpoint folder; empty: start empty
  // Per partition: a full image, then the images that build on it; none if it starts empty. The
  // small images of a move travel in the values frame, as in Frozen.
  std::vector<ImageRef> images;
  std::vector<QuarantineMarker> markers = {};  // all that the chief knows
  // False: there may be more markers. The partitions reject pushes until a StatusRequest has sent
  // all of them.
  bool markers_known = true;
  uint64_t plan_hash = 0;  // required of images with batches of unsealed epochs; 0: any plan
  bool operator==(const Adopt&) const = default;
};
struct Adopted {
  ViewId ownership_generation;
  bool ok = true;
  std::string error;                         // if !ok
  ErrorCode code = ErrorCode::kUnavailable;  // of that error
  bool operator==(const Adopted&) const = default;
};

/// The load of a partition in some period: rows pulled and applied, and the bytes of their values.
struct PartitionLoad {
  PartitionId partition{};
  uint64_t rows = 0, bytes = 0;
  bool operator==(const PartitionLoad&) const = default;
};

/// How a worker has spent its time since it started. In the remaining time it had no shard to read.
struct WorkTime {
  uint64_t compute_ns = 0;  // a batch was being computed
  uint64_t network_ns = 0;  // no batch was computed, and the worker waited for a ps
  uint64_t input_ns = 0;    // neither of these; the next batch was still being read
  // Integrals over the time in which the worker had a shard to read: of the number of batches in
  // the queue, and of the capacity of the queue. Their ratio is the mean fill.
  uint64_t queued_ns = 0, queue_ns = 0;
  uint64_t sum() const { return compute_ns + network_ns + input_ns; }
  WorkTime& operator+=(const WorkTime& other) {
    compute_ns += other.compute_ns;
    network_ns += other.network_ns;
    input_ns += other.input_ns;
    queued_ns += other.queued_ns;
    queue_ns += other.queue_ns;
    return *this;
  }
  bool operator==(const WorkTime&) const = default;
};

/// An error after which a process cannot continue and the job must end.
struct Failure {
  ErrorCode code = ErrorCode::kBug;
  std::string what;  // empty: no failure
  std::string hint, id;
  bool operator==(const Failure&) const = default;
};
/// ps core, worker or input process -> chief, every heartbeat_ns: a sign of life, with figures. The
/// figures are only hints; `failure` ends the job. The chief answers workers and input processes
/// with a Heartbeat that has only the receiver's incarnation.
struct Heartbeat {
  Incarnation incarnation{};
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;        // of the process
  uint64_t rows = 0;          // ps: embedding rows held
  uint64_t table_bytes = 0;   // ps: memory of tables and slots
  uint64_t pulled_bytes = 0;  // worker: payload received; ps: payload sent
  uint64_t pushed_bytes = 0;  // worker: payload sent; ps: received; input: bytes of batches sent
  uint64_t records = 0;       // worker: trained since start
  uint64_t read_bytes = 0;    // worker, input: bytes of input read
  std::vector<OutputMetrics> recent;  // worker: since the last heartbeat, with AUC buckets
  std::vector<uint64_t> staleness;    // ps: parts by staleness since start; last bucket: or more
  uint64_t duplicate_parts = 0, gaps = 0;  // ps: parts already applied, parts too early
  int64_t load_ns =
      0;  // ps, in every fourth heartbeat: length of the period of busy_ns and loads; 0: not set
  uint64_t busy_ns = 0;              // time in that period not spent waiting for a message
  std::vector<PartitionLoad> loads;  // estimates for its partitions that were used, ascending
  WorkTime work;                     // worker
  Failure failure = {};              // ps
  bool operator==(const Heartbeat&) const = default;
};

// ---- completion, checkpoints, end: chief <-> ps core

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

// ---- pulls and pushes: worker <-> ps core

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

// ---- synchronous steps: chief <-> ps core

/// The batch that a replica contributes to a step.
struct StepPart {
  uint32_t replica = 0;
  BatchId batch;
  auto operator<=>(const StepPart&) const = default;
};
/// ps core -> chief: the parts of the next step that every partition of this core has staged. Valid
/// under the view in the envelope. Sent when as many are complete as the last step had, when a
/// shard ends, after a new view, and with each heartbeat.
struct Staged {
  uint64_t step = 0;
  std::vector<StepPart> parts;  // ascending by replica
  bool operator==(const Staged&) const = default;
};
/// Chief -> ps core: apply the sum of exactly these parts as one step, at all partitions. Answered
/// by Committed, also if the step is already applied. Not answered by a core that cannot apply it.
struct Commit {
  uint64_t step = 0;
  std::vector<StepPart> parts;  // ascending by replica
  bool operator==(const Commit&) const = default;
};
struct Committed {
  uint64_t step = 0;
  bool operator==(const Committed&) const = default;
};

// ---- reading in another process: chief -> worker, worker <-> input process

/// A process that reads shards for workers.
struct InputProcess {
  uint32_t index = 0;
  Incarnation incarnation{};
  std::string endpoint;
  bool operator==(const InputProcess&) const = default;
};
/// Chief -> worker: the live input processes. Sent when the list changes, and with each answer to a
/// heartbeat.
struct InputList {
  std::vector<InputProcess> inputs;
  bool operator==(const InputList&) const = default;
};
/// Worker -> input process: read this shard and send its batches, starting at `first_batch`.
struct ReadShard {
  uint64_t shard_read = 0;  // id of the shard read on this connection
  Lease lease;              // purpose, shard, quarantined batches and plan: the records to read
  uint32_t first_batch = 0;
  uint32_t window = 1;  // batches that may be sent and not yet acknowledged
  bool operator==(const ReadShard&) const = default;
};
/// Worker -> input process: all batches below `next` have arrived. Repeated while the worker waits.
/// The input process returns it unchanged as a sign of life.
struct ReadMore {
  uint64_t shard_read = 0;
  uint32_t next = 0;
  bool stop = false;  // end the shard read
  bool operator==(const ReadMore&) const = default;
};
/// Input process -> worker. Payload: values frame with this piece of the batch's bytes
/// (batch_codec.h).
struct ReadBatch {
  uint64_t shard_read = 0;
  uint32_t batch = 0;
  uint32_t piece = 0, pieces = 1;
  bool operator==(const ReadBatch&) const = default;
};
/// Input process -> worker: the shard has no more batches. Counts and hash cover the whole shard.
struct ReadEnd {
  uint64_t shard_read = 0;
  ShardCounts counts;
  uint64_t records_hash = 0;
  bool operator==(const ReadEnd&) const = default;
};
/// Input process -> worker: this shard read has failed and is over.
struct ReadFailed {
  uint64_t shard_read = 0;
  ErrorCode code = ErrorCode::kUnavailable;
  std::string what, where, hint, id;
  // A record of `batch` cannot be read. False: the data are not known to be the cause.
  bool of_record = false;
  uint32_t batch = 0;
  bool operator==(const ReadFailed&) const = default;
};

/// Any receiver -> sender: the message could not be understood or served.
struct Reject {
  ErrorCode code = ErrorCode::kMalformed;
  std::string what;
  bool operator==(const Reject&) const = default;
};

using Body =
    std::variant<Hello, Welcome, Refused, View, Adopt, Adopted, Heartbeat, LeaseRequest, LeaseGrant,
                 ShardProgress, ShardFailed, LeaseRevoked, EvalReport, PredictReport, StatusRequest,
                 StatusReply, Save, Saved, Sealed, Stop, Goodbye, Pull, PullReply, Push, PushReply,
                 Reject, Freeze, Frozen, Leave, InputList, ReadShard, ReadMore, ReadBatch, ReadEnd,
                 ReadFailed, Clock, Floor, Staged, Commit, Committed>;

/// The fields that fence every message.
struct Envelope {
  uint64_t run = 0;     // 0 until welcomed
  ViewId view;          // newest that the sender knows; its term fences messages of a chief
  RequestId request{};  // a reply carries the id of its request
  bool operator==(const Envelope&) const = default;
};

/// A message: envelope, body, and at most two raw little-endian payloads of at most kFrameBytesMax
/// bytes each.
struct Message {
  Envelope envelope;
  Body body;
  Bytes keys;    // elements are uint64
  Bytes values;  // elements are float32
};

}  // namespace downpour::wire
