// Every message between roles as a plain struct. Cores know these and nothing of sockets or Cap'n
// Proto. The protocol they serve is described in docs/protocol.md.
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
#include "shared/wire/partition_set.h"

namespace downpour::wire {

constexpr uint16_t kProtocolVersion = 1;
constexpr uint64_t kFrameBytesMax = 1024 * 1024;   // a payload frame
constexpr uint64_t kHeaderBytesMax = 1024 * 1024;  // the header frame
constexpr uint32_t kLoadsMax = 4096;  // in a heartbeat: of every partition that a job may have

enum class Role : uint8_t { kChief, kPs, kWorker, kInput };
enum class Purpose : uint8_t { kTrain, kEval, kPredict };

// ---- membership: control sockets, ps core, worker or input process <-> chief

/// A partition that a ps core holds, for whoever is chief.
struct PartitionClaim {
  PartitionId partition{};
  ViewId ownership_generation;  // as its Adopt said
  uint32_t sealed_epochs = 0;
  bool operator==(const PartitionClaim&) const = default;
};

/// First message on a control socket, and again after silence. A ps process sends one for each of
/// its cores.
struct Hello {
  Role role = Role::kWorker;
  uint32_t index = UINT32_MAX;  // UINT32_MAX: give me one
  uint32_t thread = 0;          // ps: which core of the process
  Incarnation incarnation{};
  std::string build;  // version of the sender's build
  std::string host;
  uint32_t pid = 0;
  uint32_t threads = 0;  // compute threads (worker)
  std::string
      endpoint;  // ps: where this core answers pulls and pushes; input: where it reads for workers
  std::vector<PartitionClaim> claims;  // ps: what it holds, ascending; a new chief goes on with it
  uint64_t plan_hash = 0;              // ps: of the chief whose view it serves under; 0: none yet
  bool holds_unsealed = false;         // ps: what it claims holds batches of unsealed epochs
  bool operator==(const Hello&) const = default;
};

/// The chief's answer: all that a process needs to know. The files are the data set as the chief
/// saw it.
struct Welcome {
  uint32_t index = 0;
  std::string job;  // the effective job, TOML as job_to_toml() prints it
  std::string base_dir;
  std::string run_dir;
  uint64_t plan_hash = 0;
  uint64_t shard_bytes = 0;  // target of cut_shards
  std::vector<plan::FileInfo> train_files;
  std::vector<plan::FileInfo> eval_files;
  int64_t heartbeat_ns = 0;   // send a heartbeat this often
  int64_t lease_ns = 0;       // silence that ends a lease
  uint32_t train_shards = 0;  // of a training pass, at most; 0: an older chief, which does not say
  bool operator==(const Welcome&) const = default;
};

/// The chief will not have this peer: another version, a taken index, a finished job.
struct Refused {
  ErrorCode code = ErrorCode::kUnavailable;
  std::string what;
  std::string hint;
  bool operator==(const Refused&) const = default;
};

/// One hash partition's owner in a view.
struct Placement {
  uint32_t owner = UINT32_MAX;  // into View::owners; UINT32_MAX: nobody
  ViewId ownership_generation;  // the view in which this owner took it, or was rolled back
  bool operator==(const Placement&) const = default;
};
/// A ps core.
struct Owner {
  uint32_t index = 0;  // of the ps process
  uint32_t thread = 0;
  Incarnation incarnation{};
  std::string endpoint;
  bool operator==(const Owner&) const = default;
};
struct View {
  ViewId id;
  std::vector<Owner> owners;
  std::vector<Placement> partitions;  // P entries
  uint64_t plan_hash = 0;             // of the chief that published it; 0: not known
  bool operator==(const View&) const = default;
};

/// Where one partition's image lies; `file` is a plain name in the folder of `checkpoint`, or of
/// what names the image.
struct ImageRef {
  PartitionId partition{};
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 of the image
  uint64_t base = 0;  // checksum of the partition's image that it builds on; 0: it holds all rows
  ViewId checkpoint;  // {}: in the folder that is named beside; else in this one's, that folder's
                      // neighbour
  bool operator==(const ImageRef&) const = default;
};

/// A batch that is given up: the job goes on without its gradient, and its records count as
/// quarantined. Partitions keep such lines in their unit until the epoch is sealed
/// (docs/protocol.md).
struct QuarantineMarker {
  BatchId batch;
  bool withdrawn = false;  // it counts as any other batch after all
  bool had = false;        // in replies and images: the batch had been applied when the line came
  bool passed = false;     // in replies: the batch is past, without its gradient
  bool operator==(const QuarantineMarker&) const = default;
};

/// Chief -> ps core: hold these partitions from view `since` on, empty or from images. Answered by
/// Adopted; only then the view that names the core is published.
struct Adopt {
  ViewId ownership_generation;
  uint32_t sealed_epochs = 0;
  std::vector<PartitionId> partitions;
  std::string folder;  // checkpoint folder; empty: start empty
  std::vector<ImageRef>
      images;  // of each partition: a whole one, then what builds on it; none where it starts
               // empty. A move's small images travel along as Frozen brought them
  std::vector<QuarantineMarker> markers = {};  // every one that the chief knows
  bool markers_known = true;  // false: there may be more; take no push before a StatusRequest says
                              // that these are all
  uint64_t plan_hash =
      0;  // an image with batches of unsealed epochs must be of this plan; 0: of any
  bool operator==(const Adopt&) const = default;
};
struct Adopted {
  ViewId ownership_generation;
  bool ok = true;
  std::string error;                         // where !ok
  ErrorCode code = ErrorCode::kUnavailable;  // of that
  bool operator==(const Adopted&) const = default;
};

/// What a partition was asked for in some time: rows pulled and applied, and the bytes of their
/// values.
struct PartitionLoad {
  PartitionId partition{};
  uint64_t rows = 0, bytes = 0;
  bool operator==(const PartitionLoad&) const = default;
};

/// ps core or worker -> chief, every heartbeat_ns: I am alive and this is how it goes. Hints, never
/// truth. What a worker's time went into since it began. The rest: it had no shard.
struct WorkTime {
  uint64_t compute_ns = 0;  // a batch was being computed
  uint64_t network_ns = 0;  // none was, and a ps's answer was waited for
  uint64_t input_ns = 0;    // neither: the next batch was still being read
  // While it had a shard: batches that lay ready to be taken, and for how many there was room,
  // times nanoseconds. Their ratio is how full the queue was.
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

/// Why a process can't go on and the job must end.
struct Failure {
  ErrorCode code = ErrorCode::kBug;
  std::string what;  // empty: there is none
  std::string hint, id;
  bool operator==(const Failure&) const = default;
};
struct Heartbeat {
  Incarnation incarnation{};
  uint64_t rss_bytes_max = 0;
  uint64_t cpu_ns = 0;                // of the process
  uint64_t rows = 0;                  // ps: embedding rows held
  uint64_t table_bytes = 0;           // ps: memory of tables and slots
  uint64_t pulled_bytes = 0;          // worker: received payload; ps: sent payload
  uint64_t pushed_bytes = 0;          // input: sent batches
  uint64_t records = 0;               // worker: trained since start
  uint64_t read_bytes = 0;            // worker, input: input read
  std::vector<OutputMetrics> recent;  // worker: since the last heartbeat, with AUC buckets
  std::vector<uint64_t> staleness;    // ps: histogram since start, bucket = min(versions, size - 1)
  uint64_t duplicate_parts = 0, gaps = 0;  // ps: parts repeated, parts too early
  int64_t load_ns = 0;   // ps, in every fourth: of so much time tell the next two; 0: nothing
  uint64_t busy_ns = 0;  // of it, not waiting for a message
  std::vector<PartitionLoad> loads;  // estimates; what it owns and was asked for, ascending
  WorkTime work;                     // worker
  Failure failure = {};              // ps
  bool operator==(const Heartbeat&) const = default;
};

// ---- leases: worker <-> chief

struct LeaseRequest {
  uint32_t wanted = 1;  // leases the worker could begin now
  bool operator==(const LeaseRequest&) const = default;
};

/// A shard in this worker's hands until lease_ns of silence. `shard` is the place in the epoch's
/// order for training (range = order_at(...)), the range itself for eval and predict.
struct Lease {
  Purpose purpose = Purpose::kTrain;
  ShardId shard;
  uint32_t attempt = 0;
  uint32_t first_batch = 0;  // smallest watermark any partition is known to hold (hint)
  uint64_t plan_hash = 0;
  uint32_t evaluation = 0;  // id, eval only
  std::vector<uint32_t> quarantined_batches =
      {};                    // batches of the shard that are given up, ascending
  bool single_step = false;  // one batch at a time, each reported: the shard has failed before
  bool operator==(const Lease&) const = default;
};
struct LeaseGrant {
  std::vector<Lease> leases;  // empty: nothing to do now, ask again after retry_ns
  int64_t retry_ns = 0;
  bool operator==(const LeaseGrant&) const = default;
};

/// Counts of one shard as its end part carries them; a partition sums them over an epoch for the
/// account.
struct ShardCounts {
  uint32_t batches = 0;
  uint64_t read = 0, applied = 0, filtered = 0, skipped = 0, dropped = 0, quarantined = 0;
  uint64_t first_offset = 0,
           end_offset = 0;  // bytes: where the first record starts and the last one ends
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

/// Worker -> chief: this far with a lease (renews it), or through (`ended`: every partition has the
/// end part).
struct ShardProgress {
  Lease lease;
  uint32_t batches_acked = 0;  // acknowledged by all partitions
  bool ended = false;
  ShardCounts counts;       // when ended
  uint64_t bytes_done = 0;  // of the shard's range
  bool operator==(const ShardProgress&) const = default;
};
/// Why a shard failed at a batch, where that says what can be done about it.
enum class FailureKind : uint8_t {
  kOther,
  kRecord,         // a record of the batch can't be read
  kNotFinite,      // its loss or a gradient is not finite
  kMarkersDiffer,  // a ps says that the batch is given up, and the lease does not, or the other way
                   // round
};
struct ShardFailed {
  Lease lease;
  uint32_t batch = 0;
  ErrorCode code = ErrorCode::kBadData;
  std::string what, where, hint, id;
  FailureKind kind = FailureKind::kOther;
  bool operator==(const ShardFailed&) const = default;
};
/// Chief -> worker: this lease is no longer yours; stop working on it.
struct LeaseRevoked {
  Lease lease;
  bool operator==(const LeaseRevoked&) const = default;
};

/// Worker -> chief: metrics of a whole eval shard. The first report of each (evaluation, shard)
/// counts.
struct EvalReport {
  Lease lease;
  ShardCounts counts;
  std::vector<OutputMetrics> outputs;
  bool operator==(const EvalReport&) const = default;
};
/// Worker -> chief: predictions of one batch; payload values = for each output [records, width]
/// float32.
struct PredictReport {
  Lease lease;
  uint32_t batch = 0;
  uint32_t records = 0;
  bool ended = false;  // last batch of the shard (records may be 0)
  ShardCounts counts;  // when ended
  bool operator==(const PredictReport&) const = default;
};

// ---- completion, checkpoints, end: chief <-> ps core

struct StatusRequest {
  uint64_t round = 0;
  uint32_t epoch = 0;
  uint32_t shards = 0;  // of that epoch
  std::vector<QuarantineMarker> markers =
      {};                     // of any epoch; every partition takes them before it answers
  bool markers_known = true;  // these are all there are
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
  uint32_t shards_ended = 0;  // of the epoch asked for
  ShardCounts counts;         // sums over its ended shards
  uint64_t records_hash = 0;  // sum over their records; 0: not known
  bool operator==(const PartitionStatus&) const = default;
};
struct StatusReply {
  uint64_t round = 0;
  uint32_t epoch = 0;
  ViewId view;  // newest this core knows
  std::vector<PartitionStatus> partitions;
  std::vector<Interval> ended;  // shards ended at every partition of this core, ascending
  std::vector<ShardWatermark>
      open;  // begun somewhere, not ended everywhere; a hint, where there are too many to list
  std::vector<OutputSums>
      metrics;          // training metrics of the epoch that ride in this core's partitions
  std::string failure;  // not empty: the job must fail (input not deterministic, ...)
  std::vector<QuarantineMarker> markers =
      {};  // of any epoch; what is said of one is so at some partition of this core
  std::vector<Interval> begun =
      {};  // ascending; any other shard stands at 0 at every partition of this core
  bool operator==(const StatusReply&) const = default;
};

/// Chief -> ps core: write every partition you own into `folder` (one file a core), then answer
/// Saved. An image that follows one in the published checkpoint `base` may hold only the rows
/// touched since that one.
struct Save {
  ViewId checkpoint;  // (term, n) of the manifest to come
  std::string folder;
  ViewId base;  // {}: all images are whole
  uint32_t partial_epoch = 0;
  uint32_t partial_shards =
      0;  // that have ended of part_epoch, where the job ends inside it; 0: it does not
  bool operator==(const Save&) const = default;
};
struct Saved {
  ViewId checkpoint;
  bool ok = true;
  std::string error;
  std::vector<ImageRef> images;
  uint64_t rows = 0;
  bool beyond_partial_epoch = false;  // some image does not hold exactly part_shards of part_epoch
  uint32_t sealed_epochs = 0;         // the most that an image of them has sealed
  bool operator==(const Saved&) const = default;
};
/// Chief -> ps core: every epoch below this is sealed; drop its watermarks, answer "had it" from
/// now on.
struct Sealed {
  uint32_t epochs = 0;
  bool operator==(const Sealed&) const = default;
};
/// Chief -> ps core, to move partitions: serve these no more and write their images into `folder`;
/// answered by Frozen. Nothing of them changes until a newer view says whose they are: this core's,
/// and it serves them again, or another's, and it drops them. `since` is the view in which they are
/// to become the other's.
struct Freeze {
  ViewId ownership_generation;
  std::vector<PartitionId> partitions;
  std::string folder;
  bool operator==(const Freeze&) const = default;
};
struct Frozen {
  ViewId ownership_generation;
  bool ok = true;
  std::string error;  // where !ok: nothing is frozen
  std::vector<ImageRef>
      images;  // in files of the folder; with a values frame in that, whatever they call the file
  bool operator==(const Frozen&) const = default;
};
/// Any member -> chief: this process received a stop signal. With processes of `downpour train` the
/// chief stops the job. Otherwise it moves the partitions of a ps to other ps and then stops that
/// ps. Repeated with each heartbeat.
struct Leave {
  Incarnation incarnation{};
  uint32_t signal =
      0;  // number of the signal (2: SIGINT, 15: SIGTERM); 0: from a build that did not report it
  bool operator==(const Leave&) const = default;
};
/// Chief -> all: the job has ended. code 0: done. Answered by Goodbye.
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

/// `keys` keys of one table, in the order of the keys frame. Values travel table by table, within a
/// table member by member: [keys, dim] floats (dense: the blocks one after the other).
struct Section {
  TableId table{};
  uint32_t keys = 0;
  bool operator==(const Section&) const = default;
};

/// Payload: keys frame. Changes nothing at the ps, whatever the purpose; with keep_handle (train)
/// the ps keeps the rows found, for the push that names this request.
struct Pull {
  Incarnation worker{};
  Purpose purpose = Purpose::kTrain;
  bool keep_handle = false;
  std::vector<Section> sections;
  bool operator==(const Pull&) const = default;
};
enum class PullStatus : uint8_t { kOk, kWrongView, kOverloaded };
/// Payload where kOk: values frame. `versions`: of every partition this core owns, ascending.
struct PullReply {
  PullStatus status = PullStatus::kOk;
  ViewId view;  // newest this core knows (kWrongView: what the worker must reach)
  std::vector<uint64_t> versions;
  bool operator==(const PullReply&) const = default;
};

/// The parts of one batch for the partitions in `covered`, all owned by one core. Payload: keys
/// frame (absent with a handle) and values frame = gradients. A part is applied only where
/// watermark == batch.batch.
struct Push {
  Incarnation worker{};
  BatchId batch;
  uint32_t records = 0;
  uint64_t records_hash = 0;
  bool end = false;    // end part: batch.batch = batches of the shard, no sections
  ShardCounts counts;  // end only
  PartitionSet covered;
  RequestId handle{};                     // the pull it answers; 0: keys travel along
  uint32_t fragment = 0, fragments = 1;   // several: staged until whole
  std::vector<uint64_t> pulled_versions;  // without handle: as PullReply gave them for the covered
                                          // partitions, or empty
  std::vector<Section> sections;
  std::vector<OutputSums> metrics;   // counted by partition (shard mod P) where that is covered
  bool quarantined = false;          // the batch is given up: no records, no sections
  uint32_t batches_quarantined = 0;  // how many of the shard the sender knows of
  bool operator==(const Push&) const = default;
};
/// A watermark above every batch: the shard has ended at the partition (or its epoch is sealed).
constexpr uint32_t kShardEnded = UINT32_MAX;
enum class PartStatus : uint8_t {
  kApplied,
  kAlreadyApplied,
  kGap,
  kViewMismatch,
  kUnknownPull,
  kStaged,
  kQuarantined
};
struct PartReply {
  PartitionId partition{};
  PartStatus status = PartStatus::kApplied;
  uint32_t watermark =
      0;  // batches of the shard that the partition has applied now; or kShardEnded
  bool operator==(const PartReply&) const = default;
};
/// Parts that were applied stand in `applied` (their watermark is batch + 1); all others are
/// listed.
struct PushReply {
  BatchId batch;
  PartitionSet applied;
  std::vector<PartReply> others;
  ViewId view;
  bool operator==(const PushReply&) const = default;
};

// ---- reading elsewhere: chief -> worker, worker <-> input process

/// A process that reads for workers.
struct InputProcess {
  uint32_t index = 0;
  Incarnation incarnation{};
  std::string endpoint;
  bool operator==(const InputProcess&) const = default;
};
/// Chief -> worker: the input processes that live. Said when that changes, and with every answer to
/// a heartbeat.
struct InputList {
  std::vector<InputProcess> inputs;
  bool operator==(const InputList&) const = default;
};
/// Worker -> input process: read this shard, and send its batches from `first_batch` on.
struct ReadShard {
  uint64_t shard_read = 0;  // what this connection calls it
  Lease lease;  // which records: purpose, shard, batches given up; the plan they belong to
  uint32_t first_batch = 0;
  uint32_t window = 1;  // so many batches may be under way
  bool operator==(const ReadShard&) const = default;
};
/// Worker -> input process: I have all batches below `next`. Repeated while it waits, and sent back
/// as it is: "still at it".
struct ReadMore {
  uint64_t shard_read = 0;
  uint32_t next = 0;
  bool stop = false;  // nothing more is wanted
  bool operator==(const ReadMore&) const = default;
};
/// Input process -> worker. Payload: values frame, this piece of the batch's bytes (batch_codec.h).
struct ReadBatch {
  uint64_t shard_read = 0;
  uint32_t batch = 0;
  uint32_t piece = 0, pieces = 1;
  bool operator==(const ReadBatch&) const = default;
};
/// Input process -> worker: the shard has no more batches. Counts and hash are of all of it.
struct ReadEnd {
  uint64_t shard_read = 0;
  ShardCounts counts;
  uint64_t records_hash = 0;
  bool operator==(const ReadEnd&) const = default;
};
/// Input process -> worker: this reading is over.
struct ReadFailed {
  uint64_t shard_read = 0;
  ErrorCode code = ErrorCode::kUnavailable;
  std::string what, where, hint, id;
  bool of_record = false;  // a record of `batch` can't be read; else the fault is not the data's,
                           // as far as known
  uint32_t batch = 0;
  bool operator==(const ReadFailed&) const = default;
};

/// An answer to a message that could not be understood or served.
struct Reject {
  ErrorCode code = ErrorCode::kMalformed;
  std::string what;
  bool operator==(const Reject&) const = default;
};

using Body = std::variant<Hello, Welcome, Refused, View, Adopt, Adopted, Heartbeat, LeaseRequest,
                          LeaseGrant, ShardProgress, ShardFailed, LeaseRevoked, EvalReport,
                          PredictReport, StatusRequest, StatusReply, Save, Saved, Sealed, Stop,
                          Goodbye, Pull, PullReply, Push, PushReply, Reject, Freeze, Frozen, Leave,
                          InputList, ReadShard, ReadMore, ReadBatch, ReadEnd, ReadFailed>;

/// What fences every message.
struct Envelope {
  uint64_t run = 0;     // 0 until welcomed
  ViewId view;          // newest the sender knows; its term fences what comes from a chief
  RequestId request{};  // a reply carries the request's
  bool operator==(const Envelope&) const = default;
};

/// A message: fences, body, and at most two raw little-endian payloads, each <= kFrameBytesMax.
struct Message {
  Envelope envelope;
  Body body;
  Bytes keys;    // uint64
  Bytes values;  // float32
};

}  // namespace downpour::wire
