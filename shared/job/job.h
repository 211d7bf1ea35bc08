// The job: everything a user says, as plain structs. Parsed from TOML by job_file.h, printed back
// by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/tensor/variables.h"

namespace downpour {

enum class FieldType : uint8_t { kFloat32, kInt64, kString };
enum class DataFormat : uint8_t {
  kAuto,
  kLibsvm,
  kCsv,
  kTsv,
  kCriteo,
  kMnist,
  kTfrecord,
  kNpy,
  kNpz,
  kJsonl,
  kLibffm
};
enum class BadRecords : uint8_t { kFail, kSkip };
enum class TransformOp : uint8_t {
  kHash,
  kLog1p,
  kClip,
  kIdentity,
  kStandardize,
  kMinMax,
  kBucketize,
  kVocabulary,
  kTokens,
  kTruncate,
  kPad,
  kPool,
  kCross,
  kDropout,
  kNoise,
  kCrop,
};

/// What a vocabulary makes of a word that it has not.
enum class UnknownWord : uint8_t { kError, kDrop, kHash, kDefault };

/// One op of a field's transform. docs/data.md says what each does; keys.h, which members it reads.
struct TransformSpec {
  TransformOp op = TransformOp::kIdentity;
  // hash, cross: key = hash(field name, value) mod buckets (0: the whole 64 bits). identity: keys
  // are below it (0: any). vocabulary: for words it has not.
  uint64_t buckets = 0;
  std::optional<double> min, max;     // clip; min_max, learned where they are not given
  std::optional<double> mean, scale;  // standardize: (x - mean) / scale, learned where not given
  std::optional<uint64_t> fallback;   // `default`: the key of what is out of range or unknown
  std::string file;                   // vocabulary: a word a line; absolute
  std::vector<std::string> words;     // or these
  UnknownWord unknown = UnknownWord::kError;
  uint64_t size = 0, fingerprint = 0;  // of the vocabulary that training read; 0: not read yet
  std::vector<double> boundaries;      // bucketize, ascending
  std::string separators;              // tokens: each byte parts words; empty: blanks
  bool lower = false;                  // tokens: A to Z as a to z
  uint32_t ngrams = 1;                 // tokens: also of so many words in a row
  uint32_t length = 0;                 // truncate, pad, crop
  std::string keep = "first";          // truncate, pad: or "last"
  double value = 0;                    // pad: what is put behind
  std::string how = "mean";            // pool: or "sum", "min", "max", "first", "last", "count"
  std::vector<std::string> fields;     // cross
  double rate = 0, stddev = 0;         // dropout, noise
  bool operator==(const TransformSpec&) const = default;
};

/// A field of a record. `shape` is empty for a scalar; {-1} is a bag of any length (libsvm's
/// features).
struct FieldSpec {
  std::string name;
  std::string column;   // column name, where it differs from `name`
  std::string feature;  // TFRecord: the Example's feature, where it differs from `name`
  std::string path;     // npy: its file; npz: its array; JSON: its place, "a.b"; else as above
  FieldType type = FieldType::kFloat32;
  std::vector<int64_t> shape;
  std::string
      encoding;  // TFRecord: "tensor", bytes made by tf.io.serialize_tensor; empty: as it is
  std::optional<std::string>
      fallback;  // `default`: the text a missing value reads as; none: bad record
  std::vector<std::string> positive;  // labels: these texts read as 1, all others as 0
  std::vector<TransformSpec> transform;
  bool operator==(const FieldSpec&) const = default;
  bool is_bag() const { return shape.size() == 1 && shape[0] < 0; }
  /// What the file calls it.
  const std::string& source_name() const {
    return !column.empty() ? column : !feature.empty() ? feature : !path.empty() ? path : name;
  }
};

/// Who reads what (the tf.data user's auto-shard policy).
enum class Sharding : uint8_t {
  kAuto,  // one stream that all workers share: each record once
  kFile,  // file i belongs to stream i mod n
  kData,  // record i belongs to stream i mod n
  kOff,   // every stream is the whole data set: each record n times
};

/// Where a worker keeps what it has read and parsed, for the epochs to come.
enum class Cache : uint8_t {
  kOff,
  kMemory,
  kFile,  // a temporary file on the worker's own disk
};

/// Which of its records a program can give again, to whoever goes on for a dead reader.
enum class Replay : uint8_t {
  kEpoch,  // those of an epoch, from the first on: the same for the same seed and epoch
  kShard,  // any range of `records`, too
  kNone,   // nothing: it runs once, and what it writes is kept
};

/// Some of a source's paths, one behind the other, and what is said of them alone.
struct SourcePart {
  uint32_t paths = 0;   // how many
  double weight = 0;    // share of an epoch's records; 0: no part has one
  uint32_t repeat = 1;  // each record counts so often an epoch
  // What the run found, of sources with weights: how many files, repeated ones again, and how long
  // their records are.
  uint32_t files = 0;
  uint64_t record_bytes = 0;
  bool operator==(const SourcePart&) const = default;
};

/// The files of a source, one behind the other, or a program that writes records; and which of the
/// records belong to it. They are counted from 0 over all files: first `skip` go, of the rest
/// `take` stay, of those each shard_count-th from number shard_index on.
struct SourceSpec {
  std::vector<std::string>
      paths;  // paths and globs as written, concatenated; relative to Job::base_dir
  std::vector<SourcePart> parts;  // of the paths, in their order; empty: all are alike
  std::vector<std::string> exec;  // instead of paths: argv, no shell; its stdout is the data
  Replay replay = Replay::kEpoch;
  uint64_t records = 0;                   // that the program writes an epoch; 0: not known
  DataFormat format = DataFormat::kAuto;  // auto: that of the training data
  uint64_t skip = 0;
  uint64_t take = 0;  // 0: all
  uint32_t shard_count = 1, shard_index = 0;
  bool operator==(const SourceSpec&) const = default;
  bool is_program() const { return !exec.empty(); }
  /// Whether its parts are read in shares, until one of them is at its end.
  bool is_mix() const { return !parts.empty() && parts[0].weight > 0; }
  /// Of a mix: which of its parts has a file.
  uint32_t part_of(uint32_t file) const {
    uint32_t part = 0;
    for (uint32_t files = 0; part + 1 < parts.size(); ++part) {
      files += parts[part].files;
      if (file < files) break;
    }
    return part;
  }
  bool empty() const { return paths.empty() && exec.empty(); }
  bool takes_all() const { return skip == 0 && take == 0 && shard_count == 1; }
};

constexpr uint64_t kShuffleRecordsMax = uint64_t{4} << 20;  // of a window: what a reader keeps

/// How the records of a shard's ranges follow each other: `block` of one, then as many of the next.
struct InterleaveSpec {
  uint32_t cycle = 1;  // ranges in a shard, from different places of the data set
  uint32_t block = 1;
  bool operator==(const InterleaveSpec&) const = default;
};

struct DataSpec {
  SourceSpec source;
  DataFormat format = DataFormat::kAuto;
  std::string record;  // TFRecord: "example" (also empty) or "tensor", each record one tensor
  std::vector<std::string>
      columns;  // CSV/TSV: names in order, runs expanded; empty: from the header
  bool header = false;
  uint32_t skip_lines = 0;           // at the start of each file, before the header
  std::string delimiter;             // CSV/TSV: one character; empty: by format
  bool quoted_newlines = false;      // CSV: a line break in quotes is a part of its cell
  bool trim = false;                 // blanks around a value are no part of it
  std::vector<std::string> missing;  // texts that mean "missing", besides the empty one
  std::vector<FieldSpec> fields;     // runs expanded
  std::vector<std::string> program;  // argv, no shell: makes a record of each record
  std::string filter;  // a condition on fields (shared/data/expression.h); empty: every record
  InterleaveSpec interleave;
  std::string shuffle = "shard";  // "shard", "off", or a number: a window of so many records
  Sharding sharding = Sharding::kAuto;
  uint32_t streams = 0;        // of file, data and off; 0: as many as workers
  uint64_t shard_records = 0;  // 0: auto
  uint32_t prefetch = 0;       // batches read ahead a worker; 0: auto
  uint32_t parallelism = 0;    // reading threads a worker; 0: auto
  Cache cache = Cache::kOff;
  uint64_t memory = 0;  // bytes for a worker's input; 0: auto
  BadRecords bad_records = BadRecords::kFail;
  uint64_t bad_records_max = 0;  // with skip: more than this fails the job; 0: no limit
  bool operator==(const DataSpec&) const = default;
  /// Whether where a record ends shows only to who comes from the record before.
  bool boundaries_need_scan() const {
    return format == DataFormat::kTfrecord || (format == DataFormat::kCsv && quoted_newlines);
  }
  /// Records of a shuffle's window; 0: not limited by their number.
  uint64_t shuffle_records() const {
    return shuffle == "shard" || shuffle == "off" ? 0 : std::stoull(shuffle);
  }
  const FieldSpec* find_field(const std::string& name) const {
    for (const FieldSpec& field : fields)
      if (field.name == name) return &field;
    return nullptr;
  }
};

/// The same for a source whose format may be one of its own.
inline DataSpec for_source(DataSpec data, const SourceSpec& source) {
  if (source.format != DataFormat::kAuto) data.format = source.format;
  return data;
}

/// A layer as data. type: "linear", "embedding", "dense", "relu", "sigmoid", "concat", "add".
struct LayerSpec {
  std::string name;
  std::string type;
  std::vector<std::string> inputs;  // fields or earlier layers; runs expanded
  uint32_t dim = 0;                 // embedding
  std::vector<uint32_t> units;      // dense: one entry a sub-layer
  std::string activation;           // dense: between sub-layers ("relu", "sigmoid", "")
  std::string last;                 // dense: after the last one; "" = linear
  std::string pool = "sum";         // embedding of a bag: "sum" or "mean"
  std::string table;  // embedding: "shared" = one table for all inputs; "" = a table a field
  bool bias = true;   // linear, dense
  std::optional<InitSpec> init;  // of the weights; none: the layer's own
  bool operator==(const LayerSpec&) const = default;
};

struct OutputSpec {
  std::string name;
  std::string input;
  std::string loss;  // "logistic", "softmax_cross_entropy", "squared"
  std::string target;
  float weight = 1.0F;
  std::vector<std::string> metrics;  // "auc", "logloss", "accuracy", "rmse", "calibration"
  std::string weights;               // field of sample weights; "" = none
  bool operator==(const OutputSpec&) const = default;
};

/// What a preset was told. complete_job() turns it into layers and outputs and clears it.
struct PresetOptions {
  std::vector<std::string> inputs;  // empty: every field but the target
  std::string target;               // empty: "label"
  uint32_t dim = 0;                 // 0: the preset's own
  std::vector<uint32_t> units;      // empty: the preset's own
  bool own_optimizer = false;       // the job says nothing of an optimizer: the preset may choose
  bool operator==(const PresetOptions&) const = default;
};

struct ModelSpec {
  std::string preset;     // as written; `layers` and `outputs` are always the expansion
  PresetOptions options;  // until complete_job()
  std::vector<LayerSpec> layers;
  std::vector<OutputSpec> outputs;
  bool operator==(const ModelSpec&) const = default;
};

struct OptimizerRule {
  std::string variables;  // glob over variable names; first match wins
  OptimizerSpec optimizer;
  bool operator==(const OptimizerRule&) const = default;
};

/// By time, by steps, or neither: at the end of each epoch only.
struct Interval {
  int64_t ns = 0;
  uint64_t steps = 0;
  bool operator==(const Interval&) const = default;
};

/// When checkpoints are taken besides the end of each epoch and of the job, and how many are kept.
struct CheckpointSpec {
  Interval every{.ns = 600'000'000'000};
  uint32_t keep = 3;
  bool incremental = false;  // holds only the rows touched since the one before
  uint32_t full_every = 10;  // incremental: one of so many holds all rows
  bool fall_back = true;     // where the newest is damaged the newest whole one is gone on from
  bool operator==(const CheckpointSpec&) const = default;
};

/// A new run that starts from the variables of another run's newest checkpoint.
struct WarmStartSpec {
  std::string run;    // its folder, absolute; empty: none
  bool slots = true;  // the optimizers' state as well
  bool operator==(const WarmStartSpec&) const = default;
};

constexpr uint32_t kEpochsMax = 1'000'000;  // as many as that are no limit, beside `steps`

struct TrainSpec {
  uint32_t epochs = 1;           // where `steps` is given, kEpochsMax unless this is too
  uint64_t steps = 0;            // batches, over all epochs; 0: no limit
  uint64_t steps_per_epoch = 0;  // of a source that is one shard; 0: to its end
  uint32_t batch_size = 512;
  bool drop_remainder = false;
  std::string reduction = "mean";  // or "sum"
  std::string mode = "async";      // the only one accepted yet
  uint32_t in_flight = 2;          // batches a worker has pulled and not yet seen applied
  CheckpointSpec checkpoint;
  WarmStartSpec warm_start;
  bool quarantine = false;      // a batch that fails again and again is left out, and counted
  std::string on_nan = "stop";  // or "skip": so is one whose loss or gradient is not finite
  bool operator==(const TrainSpec&) const = default;
};

/// Ends training once the evaluation loss stops improving.
struct EarlyStopSpec {
  uint32_t patience = 0;  // evaluations in a row without a new lowest loss; 0: never stop early
  bool operator==(const EarlyStopSpec&) const = default;
};

struct EvalSpec {
  SourceSpec source;   // empty: none
  double holdout = 0;  // share of the training records, by hash of file and offset
  std::string every = "epoch";
  std::vector<std::string> metrics;
  EarlyStopSpec early_stop;
  bool keep_best = false;  // the run's result is the epoch with the lowest loss, not the last one
  bool operator==(const EvalSpec&) const = default;
};

struct ClusterSpec {
  uint32_t ps = 1;
  uint32_t workers = 1;
  uint32_t input_workers = 0;  // processes that read for the workers
  std::string transport =
      "ipc";                // between local processes: "ipc" or "tcp"; one process is always inproc
  uint32_t threads = 0;     // 0: what affinity and cgroup allow
  uint32_t ps_threads = 1;  // cores of a ps process
  uint64_t ps_memory = 0;   // bytes for the tables of one ps; 0: what its machine allows
  uint32_t restarts = 3;    // of one local process, in a row without progress of the job
  bool rebalance = true;    // a hot ps gives partitions away
  // How long is waited, in nanoseconds.
  int64_t start_wait_ns = 60'000'000'000;      // at the start, for all ps and for the first worker
  int64_t workers_wait_ns = 60'000'000'000;    // without any worker; then the job ends
  int64_t ps_wait_ns = 30'000'000'000;         // for a lost ps; then others take its partitions
  int64_t chief_silence_ns = 60'000'000'000;   // ps and workers, for a word of the chief
  int64_t claims_wait_ns = 2'000'000'000;      // a new chief, for ps to say what they hold
  int64_t adopt_timeout_ns = 600'000'000'000;  // for a ps to load its partitions
  bool operator==(const ClusterSpec&) const = default;
};

struct Job {
  std::string name;
  uint64_t seed = 1;
  std::string run_dir;        // absolute
  std::string base_dir;       // the job file's folder: relative paths start here
  uint32_t partitions = 256;  // P, a power of two
  DataSpec data;
  ModelSpec model;
  OptimizerSpec optimizer;
  std::vector<OptimizerRule> optimizer_rules;
  TrainSpec train;
  EvalSpec eval;
  ClusterSpec cluster;
  bool operator==(const Job&) const = default;
};

/// Whether the epoch of the data's program, which is read from its first record, is given out in
/// pieces.
bool gives_pieces(const Job& job);

}  // namespace downpour
