# Structured data in a checkpoint: the state of a partition, the manifest, the file `run`. Bulk data
# (keys, weights, slots) are raw and little-endian in the sections of an image.
# shared/checkpoint/FORMAT.md specifies the bytes around these messages.
#
# Never renumber, reorder or reuse a field. Absent fields read as 0 or empty; the reader rejects
# values that are not allowed.
@0xb2c5f2a6d1e94c07;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("downpour::schema::checkpoint");

# ---- one partition (section "state" of an image) ----

struct Counts {             # batches and records; wire::ShardCounts
  batches @0 :UInt32;
  read @1 :UInt64;          # = applied + filtered + skipped + dropped + quarantined
  applied @2 :UInt64;
  filtered @3 :UInt64;
  skipped @4 :UInt64;
  dropped @5 :UInt64;
  quarantined @6 :UInt64;
  firstOffset @7 :UInt64;   # bytes, of one shard; 0 in sums
  endOffset @8 :UInt64;
}

struct Sums {               # OutputSums of one model output, over records
  weight @0 :Float64;
  loss @1 :Float64;
  label @2 :Float64;
  labelSquared @3 :Float64;
  prediction @4 :Float64;
  correct @5 :Float64;
  squaredError @6 :Float64;
  absoluteError @7 :Float64;  # of a number; 0: not counted
  inTopK @8 :Float64;         # of an output with classes; below `correct`: not counted
}

struct Interval {           # [begin, end); begin < end
  begin @0 :UInt32;
  end @1 :UInt32;
}

struct EpochState {         # sums of an unsealed epoch at this partition
  epoch @0 :UInt32;
  shardsEnded @1 :UInt32;
  counts @2 :Counts;
  metrics @3 :List(Sums);   # one for each model output
  ended @4 :List(Interval); # ended shards, ascending
  recordsHash @5 :UInt64;   # sum of the hashes of all records of ended shards; 0: not known
}

struct ShardState {         # a shard that this partition has begun and not ended
  epoch @0 :UInt32;
  shard @1 :UInt32;
  watermark @2 :UInt32;     # batches applied
  ended @3 :Bool;
  records @4 :UInt64;
  recordsHash @5 :UInt64;
  counts @6 :Counts;
}

struct QuarantineMarker {     # a quarantined batch of an unsealed epoch
  epoch @0 :UInt32;
  shard @1 :UInt32;
  batch @2 :UInt32;
  withdrawn @3 :Bool;       # the batch counts like any other batch again
  had @4 :Bool;             # the batch had been applied already when the marker arrived
}

# Section "quarantine markers" of an image of format 3 or 4.
struct QuarantineMarkers {
  markers @0 :List(QuarantineMarker);  # ascending, at least one
}

struct PartitionState {
  partition @0 :UInt32;     # below Manifest.partitions
  version @1 :UInt64;       # steps applied, including empty ones
  sealedEpochs @2 :UInt32;  # epochs below this are sealed
  epochs @3 :List(EpochState);  # ascending
  shards @4 :List(ShardState);  # ascending
  planHash @5 :UInt64;      # plan under which the unsealed epochs were trained; absent: not known,
                            # or none are held
  stepsBefore @6 :UInt64;   # steps of earlier runs whose optimizer slots this one has continued
                            # with; 0: none, or not known
}

# ---- the manifest ----

struct Initializer {
  type @0 :UInt8;           # 0 zero, 1 uniform, 2 normal
  scale @1 :Float32;
}

struct Optimizer {
  type @0 :UInt8;           # 0 sgd, 1 momentum, 2 adagrad, 3 adam, 4 ftrl, 5 rmsprop, 6 adamw,
                            # 7 rowwise_adagrad
  learningRate @1 :Float32;
  momentum @2 :Float32;
  nesterov @3 :Bool;
  initialAccumulator @4 :Float32;
  epsilon @5 :Float32;
  beta1 @6 :Float32;
  beta2 @7 :Float32;
  l1 @8 :Float32;
  l2 @9 :Float32;
  beta @10 :Float32;
  rho @11 :Float32 = 0.9;
  weightDecay @12 :Float32 = 0.01;
  averaged @13 :Bool;       # the rows also store averages of the weights
}

struct Variable {
  name @0 :Text;
  dim @1 :UInt32;           # embedding: floats per row, at least 1
  shape @2 :List(UInt32);   # dense: row-major, without 0
  init @3 :Initializer;
  optimizer @4 :Optimizer;
}

struct Table {              # a TableId is an index into Manifest.tables
  name @0 :Text;
  kind @1 :UInt8;           # 0 embedding, 1 dense
  members @2 :List(Variable);  # at least 1; dense: exactly 1
}

struct ImageRef {           # location of a partition's image
  partition @0 :UInt32;
  file @1 :Text;            # plain name in the checkpoint's folder
  offset @2 :UInt64;        # bytes from the start of the file, a multiple of 64
  bytes @3 :UInt64;
  checksum @4 :UInt64;      # XXH3-64 that identifies the image: see checkpoint::image_checksum()
}

struct EpochRecord {        # a complete epoch as the chief knows it
  epoch @0 :UInt32;
  shards @1 :UInt32;
  counts @2 :Counts;        # the same at every partition
  summary @3 :Text;         # JSON of the chief; opaque here
}

struct Manifest {
  term @0 :UInt32;          # (term, n): as in the file's name; term is at least 1
  n @1 :UInt32;
  run @2 :UInt64;           # id in the file `run`; not 0
  planHash @3 :UInt64;
  job @4 :Text;             # effective job, TOML
  partitions @5 :UInt32;    # P, a power of two, 2 to 65536
  tables @6 :List(Table);
  images @7 :List(ImageRef);   # exactly P, by partition
  completedEpochs @8 :UInt32;
  sealedEpochs @9 :UInt32;  # sealed by this manifest; at most completedEpochs
  epochs @10 :List(EpochRecord);
  rows @11 :UInt64;         # total number of embedding rows
  build @12 :Text;          # version of the writer; information only
  createdUnixSeconds @13 :Int64;  # information only
}

# The body of a manifest of format 2: some images hold only the rows changed since an earlier image.
struct ChainedManifest {
  manifest @0 :Manifest;    # its images are the newest of each partition, in this checkpoint's own
                            # folder
  bases @1 :List(BaseImage);   # images that those build on: by partition, oldest first; the first
                               # one is a full image
}

# The body of a manifest of format 3: it also names the ownership generation of each partition.
struct PlacedManifest {
  chained @0 :ChainedManifest;    # with bases or without
  generationTerms @1 :List(UInt32);    # by partition: ownership generation of the ps core that wrote
                                       # its image
  generationNs @2 :List(UInt32);       # as long as generationTerms
  givenTerm @3 :UInt32;           # upper bound of all generations assigned so far: (givenTerm,
                                  # givenN)
  givenN @4 :UInt32;
  bestTerm @5 :UInt32;            # (term, n) of the checkpoint with the lowest evaluation loss, at
                                  # most this manifest's own; (0, 0): none is kept for that reason
  bestN @6 :UInt32;
}

struct BaseImage {
  term @0 :UInt32;          # (term, n): checkpoint whose folder contains the image
  n @1 :UInt32;
  image @2 :ImageRef;
}

# ---- the file `run` ----

struct DataFile {           # a file as the plan saw it
  path @0 :Text;
  bytes @1 :UInt64;         # on disk
  fingerprint @2 :UInt64;   # hash of size and of the first and last 64 KiB
}

struct Run {
  id @0 :UInt64;            # random; not 0
  planHash @1 :UInt64;      # plan of the epochs that no manifest holds
  fingerprint @2 :UInt64;   # of the data set
  job @3 :Text;             # effective job at the start of the run, TOML
  build @4 :Text;
  createdUnixSeconds @5 :Int64;
  files @6 :List(DataFile);  # at most 4096, for messages; absent: not known
}
