# Every message between roles. It follows the envelope of shared/wire/frame.h in the header frame.
# The kind in the envelope says which struct is the root. README.md gives the rules for changes.
#
# A field that is absent reads as its default. Every enum starts with `unset`. No sender writes
# `unset` and every reader rejects it, except in FailureKind and in two codes below. Therefore a
# message of zeros, which is valid Cap'n Proto, is not a valid message. "Required" means that the
# reader rejects the default.
@0xc5d7a1f3b2e94806;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("downpour::schema");

enum Role { unset @0; chief @1; ps @2; worker @3; input @4; }
enum Purpose { unset @0; train @1; eval @2; predict @3; }
enum FailureKind { unset @0; record @1; notFinite @2; markersDiffer @3; }  # unset: another
enum PullStatus { unset @0; ok @1; wrongView @2; overloaded @3; }
enum PartStatus {
  unset @0; applied @1; alreadyApplied @2; gap @3; viewMismatch @4; unknownPull @5; staged @6; quarantined @7;
  otherStep @8; sendAgain @9;
}
enum ErrorCode {
  unset @0; usage @1; badData @2; noInput @3; unavailable @4; bug @5; cannotCreate @6; io @7; permission @8;
  config @9; malformed @10; unsupported @11; interrupted @12; peersLost @13;
}

# ---- structs inside messages

struct FileInfo {
  path @0 :Text;                # absolute; required
  bytes @1 :UInt64;             # size on disk
  fingerprint @2 :UInt64;       # hash of size and of the first and last 64 KiB
  splittable @3 :Bool = true;   # true: may be cut into shards; false: is read from its start only
  cuts @4 :List(UInt64);        # the only offsets where it may be cut: bytes, strictly ascending,
                                # within (0, bytes); empty: anywhere if it is splittable, else
                                # nowhere
  recordsBefore @5 :List(UInt64);  # for each piece that the file is cut into: number of records of
                                   # the data set before it, ascending, or all ones if no record of
                                   # the piece is chosen; empty: not counted
}

struct OutputSums {
  weight @0 :Float64;           # records, or the sum of their weights
  loss @1 :Float64;
  label @2 :Float64;
  labelSquared @3 :Float64;
  prediction @4 :Float64;
  correct @5 :Float64;          # records
  squaredError @6 :Float64;
  absoluteError @7 :Float64;    # of a number; 0: not counted
  inTopK @8 :Float64;           # records, of an output with classes; below `correct`: not counted
}

struct OutputMetrics {
  sums @0 :OutputSums;          # absent: zeros
  aucBuckets @1 :List(UInt32);  # non-empty buckets; the three lists have the same length
  aucNegatives @2 :List(UInt32);
  aucPositives @3 :List(UInt32);
  classCounts @4 :List(UInt64);  # records of each class; absent: no classes
}

struct Owner {
  index @0 :UInt32;             # of the ps process
  thread @1 :UInt32;            # of the core in that process
  incarnation @2 :UInt64;       # required
  endpoint @3 :Text;            # answers pulls and pushes; required
}

struct ImageRef {
  partition @0 :UInt32;         # 0 to 65535
  file @1 :UInt32;              # index into Images.files
  offset @2 :UInt64;            # bytes from the start of the file
  bytes @3 :UInt64;
  checksum @4 :UInt64;          # XXH3-64 that identifies the image
  base @5 :UInt64;              # checksum of the image that it builds on; 0: a full image
  term @6 :UInt32;              # (term, n): checkpoint whose folder contains the file; 0: the
                                # folder named by the message
  n @7 :UInt32;
}
struct Images {
  files @0 :List(Text);         # names in the folders of the images
  refs @1 :List(ImageRef);      # per partition: the full image first, then the images that build on
                                # it
}

struct Lease {
  purpose @0 :Purpose;          # required
  epoch @1 :UInt32;
  shard @2 :UInt32;
  attempt @3 :UInt32;
  firstBatch @4 :UInt32;        # hint: smallest watermark known
  evaluation @5 :UInt32;        # eval only
  planHash @6 :UInt64;
  quarantinedBatches @7 :List(UInt32);     # batches of the shard, ascending; absent: none
  singleStep @8 :Bool;             # report each batch before the next one is read; false: up to
                                 # as many at once as the job allows
  replica @9 :UInt32;           # synchronous training only
  rateReductions @10 :UInt32;   # train only: how often a plateau schedule has reduced the rate
}

struct QuarantineMarker {         # a quarantined or proposed batch
  epoch @0 :UInt32;
  shard @1 :UInt32;
  batch @2 :UInt32;
  withdrawn @3 :Bool;           # true: it counts like any other batch again
  had @4 :Bool;                 # in replies: it had been applied already when the marker arrived
  passed @5 :Bool;              # in replies: the watermark is past it, without its gradient
}

struct ShardCounts {
  batches @0 :UInt32;
  read @1 :UInt64;              # records, like all below
  applied @2 :UInt64;
  filtered @3 :UInt64;
  skipped @4 :UInt64;
  dropped @5 :UInt64;
  quarantined @6 :UInt64;
  firstOffset @7 :UInt64;       # bytes: start of the first record
  endOffset @8 :UInt64;         # bytes: end of the last record
}

struct ShardWatermark {
  shard @0 :UInt32;
  watermark @1 :UInt32;         # batches
}
struct Interval {               # [begin, end); begin < end
  begin @0 :UInt32;
  end @1 :UInt32;
}

struct PartitionStatus {
  partition @0 :UInt32;         # 0 to 65535
  generationTerm @1 :UInt32;
  generationN @2 :UInt32;
  shardsEnded @3 :UInt32;
  version @4 :UInt64;           # steps
  counts @5 :ShardCounts;       # absent: zeros
  recordsHash @6 :UInt64;       # sum of the hashes of all records of ended shards; 0: not known
}

struct Section {
  table @0 :UInt32;
  keys @1 :UInt32;              # number; the sum over all sections of a message is the number of
                                # keys in its keys frame
}

struct PartReply {
  partition @0 :UInt32;         # 0 to 65535
  status @1 :PartStatus;        # required
  watermark @2 :UInt32;         # batches applied
}

# ---- membership (kinds 1 to 7)

struct Hello {
  role @0 :Role;                # required
  index @1 :UInt32 = 0xffffffff;  # absent: the chief assigns one
  thread @2 :UInt32;            # ps: number of the core in its process
  pid @3 :UInt32;
  threads @4 :UInt32;           # worker: compute threads
  incarnation @5 :UInt64;       # required
  build @6 :Text;
  host @7 :Text;
  endpoint @8 :Text;            # ps: answers pulls and pushes; input: reads for workers; others:
                                # absent
  claims @9 :List(PartitionClaim);  # ps: all that it holds, ascending; absent: none
  planHash @10 :UInt64;         # ps: plan of the chief whose view it serves under; absent: none yet
  holdsUnsealed @11 :Bool;      # ps: claimed partitions hold batches of unsealed epochs
}

struct PartitionClaim {
  partition @0 :UInt32;         # 0 to 65535
  generationTerm @1 :UInt32;
  generationN @2 :UInt32;
  sealedEpochs @3 :UInt32;
}

struct Welcome {
  index @0 :UInt32;
  planHash @1 :UInt64;
  shardBytes @2 :UInt64;
  heartbeatNs @3 :Int64;        # > 0; required
  leaseNs @4 :Int64;            # > 0; required
  job @5 :Text;                 # TOML; required
  baseDir @6 :Text;
  runDir @7 :Text;
  trainFiles @8 :List(FileInfo);
  evalFiles @9 :List(FileInfo);
  trainShards @10 :UInt32;      # upper bound of the shards of a training pass; 0: not set
  saves @11 :Bool;              # a ps writes checkpoints into runDir
}

struct Refused {
  code @0 :ErrorCode;           # required
  what @1 :Text;
  hint @2 :Text;
}

struct View {
  term @0 :UInt32;
  n @1 :UInt32;
  owners @2 :List(Owner);
  placementOwners @3 :List(UInt32);  # by partition: index into owners, or 0xffffffff if it has no
                                     # owner; required
  placementTerms @4 :List(UInt32);   # by partition: term of the ownership generation; as long as
                                     # placementOwners
  placementNs @5 :List(UInt32);      # by partition: n of the ownership generation; as long as
                                     # placementOwners
  planHash @6 :UInt64;               # of the chief that published the view; absent: not known
}

struct Adopt {
  generationTerm @0 :UInt32;
  generationN @1 :UInt32;
  sealedEpochs @2 :UInt32;
  partitions @3 :List(UInt32);  # each 0 to 65535
  folder @4 :Text;              # checkpoint folder; absent: start empty
  images @5 :Images;
  markers @6 :List(QuarantineMarker);
  markersKnown @7 :Bool = true;   # false: there may be more markers than these
  planHash @8 :UInt64;          # plan that an image with batches of unsealed epochs must have;
                                # absent: any
}

struct Adopted {
  generationTerm @0 :UInt32;
  generationN @1 :UInt32;
  ok @2 :Bool;                  # absent: it failed
  error @3 :Text;
  code @4 :ErrorCode;           # of the error; absent: unavailable
}

struct Heartbeat {
  incarnation @0 :UInt64;       # required
  rssBytesMax @1 :UInt64;
  cpuNs @2 :UInt64;
  rows @3 :UInt64;
  tableBytes @4 :UInt64;
  pulledBytes @5 :UInt64;
  pushedBytes @6 :UInt64;
  records @7 :UInt64;
  readBytes @8 :UInt64;
  duplicateParts @9 :UInt64;             # parts
  gaps @10 :UInt64;             # parts
  recent @11 :List(OutputMetrics);
  staleness @12 :List(UInt64);  # parts, by number of versions between pull and application
  loadNs @13 :Int64;            # >= 0; 0: the next four are not set
  busyNs @14 :UInt64;           # at most loadNs
  loadPartitions @15 :List(UInt32);  # ascending, each 0 to 65535; at most 4096
  loadRows @16 :List(UInt64);   # as long as loadPartitions, like the next
  loadBytes @17 :List(UInt64);
  computeNs @18 :UInt64;        # of a worker since its start, like the next four
  networkNs @19 :UInt64;
  inputNs @20 :UInt64;
  queuedNs @21 :UInt64;         # batches ready, and room for batches, integrated over time (batches
                                # x ns)
  queueNs @22 :UInt64;
  failure @23 :Text;            # of a ps: why the job must end; absent: no failure
  failureHint @24 :Text;
  failureId @25 :Text;
  failureCode @26 :ErrorCode;   # absent: bug
}

# ---- leases (kinds 8 to 14)

struct LeaseRequest { wanted @0 :UInt32 = 1; }
struct LeaseGrant {
  leases @0 :List(Lease);       # absent: no work now
  retryNs @1 :Int64;            # >= 0
}
struct ShardProgress {
  lease @0 :Lease;              # required
  batchesAcked @1 :UInt32;
  ended @2 :Bool;
  bytesDone @3 :UInt64;
  counts @4 :ShardCounts;       # if all batches are acknowledged and the end was read; absent: zeros
}
struct ShardFailed {
  lease @0 :Lease;              # required
  batch @1 :UInt32;
  code @2 :ErrorCode;           # required
  what @3 :Text;
  where @4 :Text;
  hint @5 :Text;
  id @6 :Text;
  kind @7 :FailureKind;         # absent: none of the kinds
}
struct LeaseRevoked { lease @0 :Lease; }  # required
struct Clock {                  # kind 36
  batches @0 :UInt64;           # at most 2^53
  floor @1 :UInt64;             # at most `batches`
  sentNs @2 :Int64;             # >= 0
}
struct Floor {                  # kind 37
  batches @0 :UInt64;           # at most 2^53
  reportNs @1 :Int64;           # >= 0
}
struct EvalReport {
  lease @0 :Lease;              # required
  counts @1 :ShardCounts;       # absent: zeros
  outputs @2 :List(OutputMetrics);
  slices @3 :List(OutputMetrics);  # for each of eval.slices: the others, then each value; each: all outputs
}
struct PredictReport {          # values: [records, width] for each output; groups: [records, 2 + 2 outputs]
  lease @0 :Lease;              # required
  batch @1 :UInt32;
  records @2 :UInt32;
  ended @3 :Bool;
  counts @4 :ShardCounts;       # if ended; absent: zeros
}

# ---- completion, checkpoints, end (kinds 15 to 21)

struct StatusRequest {
  round @0 :UInt64;
  epoch @1 :UInt32;
  shards @2 :UInt32;            # in that epoch
  markers @3 :List(QuarantineMarker);  # of any epoch
  markersKnown @4 :Bool = true;   # false: there may be more markers than these
}
struct StatusReply {
  round @0 :UInt64;
  epoch @1 :UInt32;
  viewTerm @2 :UInt32;
  viewN @3 :UInt32;
  partitions @4 :List(PartitionStatus);
  ended @5 :List(Interval);     # ascending
  open @6 :List(ShardWatermark);
  metrics @7 :List(OutputSums);
  failure @8 :Text;             # absent: no failure
  markers @9 :List(QuarantineMarker);  # of any epoch, merged over the core's partitions
  begun @10 :List(Interval);    # ascending
}
struct Save {
  term @0 :UInt32;
  n @1 :UInt32;
  folder @2 :Text;              # required
  baseTerm @3 :UInt32;          # published checkpoint that images may build on; 0: none
  baseN @4 :UInt32;
  partialEpoch @5 :UInt32;
  partialShards @6 :UInt32;        # ended shards of partialEpoch, if the job ends inside it; 0: it
                                   # does not
  step @7 :UInt64;              # next step that all partitions must have; 0: any
}
struct Saved {
  term @0 :UInt32;
  n @1 :UInt32;
  ok @2 :Bool;                  # absent: it failed
  rows @3 :UInt64;
  error @4 :Text;
  images @5 :Images;
  beyondPartialEpoch @6 :Bool;          # an image holds more or less of partialEpoch than its
                                        # partialShards
  sealedEpochs @7 :UInt32;      # highest number of sealed epochs of any image
}
struct Sealed { epochs @0 :UInt32; }
struct Freeze {                 # kind 27
  generationTerm @0 :UInt32;
  generationN @1 :UInt32;
  partitions @2 :List(UInt32);  # each 0 to 65535; required
  folder @3 :Text;              # required
}
struct Frozen {                 # kind 28
  generationTerm @0 :UInt32;
  generationN @1 :UInt32;
  ok @2 :Bool;                  # absent: it failed
  error @3 :Text;
  images @4 :Images;
}
struct Leave {                  # kind 29
  incarnation @0 :UInt64;       # required
  signal @1 :UInt32;            # number of the stop signal that the sender received; 0: not
                                # reported
}
struct Stop {
  code @0 :Int32 = 70;          # exit code; 0: success. The default is that of a bug, so that zeros
                                # never mean success.
  reason @1 :Text;
}
struct Goodbye { last @0 :Heartbeat; }  # required

# ---- pulls and pushes (kinds 22 to 25); the envelope's request id is required in Pull and Push

struct Pull {                   # keys frame
  worker @0 :UInt64;            # incarnation; required
  purpose @1 :Purpose;          # required
  keepHandle @2 :Bool;
  sections @3 :List(Section);
  step @4 :UInt64;              # the answer waits until the core applies this step next; 0: it does not wait
}
struct PullReply {              # values frame if ok
  status @0 :PullStatus;        # required
  viewTerm @1 :UInt32;
  viewN @2 :UInt32;
  versions @3 :List(UInt64);    # of every partition of the core, ascending
}
struct Push {                   # keys frame (absent with a handle), values frame
  worker @0 :UInt64;            # incarnation; required
  epoch @1 :UInt32;
  shard @2 :UInt32;
  batch @3 :UInt32;
  records @4 :UInt32;
  recordsHash @5 :UInt64;
  handle @6 :UInt64;            # request id of a pull; absent: the keys frame is present
  fragment @7 :UInt32;          # 0 to fragments - 1
  fragments @8 :UInt32 = 1;
  end @9 :Bool;
  counts @10 :ShardCounts;      # shard-end marker only; absent: zeros
  covered @11 :List(UInt64);    # bit p % 64 of word p / 64; required
  pulledVersions @12 :List(UInt64);
  sections @13 :List(Section);
  metrics @14 :List(OutputSums);
  quarantined @15 :Bool;            # no gradient: the batch is quarantined
  batchesQuarantined @16 :UInt32;   # of the shard, as far as the sender knows
  step @17 :UInt64;             # for which the values were pulled; 0: any
  replica @18 :UInt32;          # synchronous training only
  rateReductions @19 :UInt32;   # as in the lease of the batch
}
struct PushReply {
  epoch @0 :UInt32;
  shard @1 :UInt32;
  batch @2 :UInt32;
  viewTerm @3 :UInt32;
  viewN @4 :UInt32;
  applied @5 :List(UInt64);     # bits as in Push.covered
  others @6 :List(PartReply);
}

# ---- synchronous steps (kinds 38 to 41)

struct StepPart {               # the batch of one replica
  replica @0 :UInt32;           # with backups the shard
  epoch @1 :UInt32;
  shard @2 :UInt32;
  batch @3 :UInt32;
}
struct Staged {
  step @0 :UInt64;              # required
  parts @1 :List(StepPart);     # ascending by replica
  expects @2 :UInt64;           # version of the newest Expect; 0: none is known
}
struct Commit {
  step @0 :UInt64;              # required
  parts @1 :List(StepPart);     # ascending by replica
  measure @2 :Bool;             # true: asks for the norms of the sum, and changes nothing
  factors @3 :List(Float32);    # of the sum: one, or one of each variable; empty: all are 1
}
struct Committed {              # values frame: the squared norms, float64, by partition and group
  step @0 :UInt64;              # required
  measured @1 :Bool;            # true: answers `measure`; false: the step is applied
  partitions @2 :List(UInt32);  # of the norms, ascending
}
struct Expect {
  version @0 :UInt64;           # required; increases
  parts @1 :List(StepPart);     # ascending by replica: its current shard; the batch is not set
}

# ---- reading in another process (kinds 30 to 35)

struct InputProcess {
  index @0 :UInt32;
  incarnation @1 :UInt64;       # required
  endpoint @2 :Text;            # reads for workers; required
}
struct InputList { inputs @0 :List(InputProcess); }
struct ReadShard {
  shardRead @0 :UInt64;           # required
  lease @1 :Lease;              # required
  firstBatch @2 :UInt32;
  window @3 :UInt32 = 1;        # batches; at least 1
}
struct ReadMore {
  shardRead @0 :UInt64;           # required
  next @1 :UInt32;              # all batches below it have arrived
  stop @2 :Bool;
}
struct ReadBatch {              # values frame: this piece of the batch's bytes
                                # (shared/wire/batch_codec.h)
  shardRead @0 :UInt64;           # required
  batch @1 :UInt32;
  piece @2 :UInt32;             # 0 to pieces - 1
  pieces @3 :UInt32 = 1;
}
struct ReadEnd {
  shardRead @0 :UInt64;           # required
  counts @1 :ShardCounts;       # absent: zeros
  recordsHash @2 :UInt64;
}
struct ReadFailed {
  shardRead @0 :UInt64;           # required
  code @1 :ErrorCode;           # required
  what @2 :Text;
  where @3 :Text;
  hint @4 :Text;
  id @5 :Text;
  ofRecord @6 :Bool;
  batch @7 :UInt32;             # if ofRecord
}

# ---- kind 26

struct Reject {
  code @0 :ErrorCode;           # required
  what @1 :Text;
}
