// The job: all settings of a user, as plain structs. job_file.h parses it from TOML and prints it
// back.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/job/mode.h"
#include "shared/job/ops.h"
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
  kLibffm,
  kMemory,
  kLast = kMemory
};
enum class BadRecords : uint8_t { kFail, kSkip };

/// A field of a record. `shape` is empty for a scalar; {-1} is a bag of any length (the features of
/// libsvm).
struct FieldSpec {
  std::string name;
  std::string column;   // column name, if it differs from `name`
  std::string feature;  // TFRecord: name of the Example's feature, if it differs from `name`
  // npy: name of the file; npz: name of the array; JSON: path, such as "a.b". Empty if it equals
  // `name`.
  std::string path;
  FieldType type = FieldType::kFloat32;
  std::vector<int64_t> shape;
  std::string encoding;  // TFRecord: "tensor" for bytes of tf.io.serialize_tensor; empty: unencoded
  // Key `default`: the text that replaces a missing value. Without it, such a record is bad.
  std::optional<std::string> fallback;
  std::vector<std::string> positive;  // labels: these texts read as 1, all others as 0
  // Labels: each text reads as its index in this list; a record with another text is bad.
  std::vector<std::string> classes;
  std::vector<TransformSpec> transform;
  bool operator==(const FieldSpec&) const = default;
  bool is_bag() const { return shape.size() == 1 && shape[0] < 0; }
  /// Returns true if `positive` or `classes` maps the field's texts to numbers.
  bool is_label() const { return !positive.empty() || !classes.empty(); }
  /// Returns the field's name in the file.
  const std::string& source_name() const {
    return !column.empty() ? column : !feature.empty() ? feature : !path.empty() ? path : name;
  }
};

/// How records are assigned to workers. This is the auto-shard policy of tf.data.
enum class Sharding : uint8_t {
  kAuto,  // one stream that all workers share: each record counts once
  kFile,  // file i belongs to stream i mod n
  kData,  // record i belongs to stream i mod n
  kOff,   // every stream is the whole data set: each record counts n times
};

/// Where a worker keeps the records that it has parsed, for later epochs.
enum class Cache : uint8_t {
  kOff,
  kMemory,
  kFile,  // a temporary file on the worker's own disk
};

/// Which records a program can produce again. A shard that is read a second time, for example after
/// its worker died, needs this.
enum class Replay : uint8_t {
  kEpoch,  // all records of an epoch, from the first on; the same for the same seed and epoch
  kShard,  // also any range of an epoch's records (SourceSpec::records)
  kNone,   // none: the program runs once, and its output is kept
};

/// Consecutive paths of a source, with the settings that apply only to them.
struct SourcePart {
  uint32_t paths = 0;   // number of paths
  double weight = 0;    // share of an epoch's records; 0: no part of the source has a weight
  uint32_t repeat = 1;  // how often each record counts per epoch
  // Found by the run, for sources with weights: the number of files (repeated files count each
  // time) and the mean record length.
  uint32_t files = 0;
  uint64_t record_bytes = 0;
  bool operator==(const SourcePart&) const = default;
};

/// The files of a source, in order, or a program that writes records. Also selects records, which
/// are numbered from 0 over all files: the first `skip` are left out, then `take` are kept, and of
/// these every shard_count-th from number shard_index on.
struct SourceSpec {
  // Paths and globs as written, concatenated; relative to Job::base_dir.
  std::vector<std::string> paths;
  // Consecutive groups of the paths; empty: no path has settings of its own.
  std::vector<SourcePart> parts;
  std::vector<std::string> exec;  // instead of paths: argv without a shell; its stdout is the data
  Replay replay = Replay::kEpoch;
  uint64_t records = 0;  // number of records that the program writes per epoch; 0: unknown
  DataFormat format = DataFormat::kAuto;  // auto: the format of the training data
  uint64_t skip = 0;
  uint64_t take = 0;  // 0: all
  uint32_t shard_count = 1, shard_index = 0;
  bool operator==(const SourceSpec&) const = default;
  bool is_program() const { return !exec.empty(); }
  /// Returns true if the parts are read in proportion to their weights, until one of them is at its
  /// end.
  bool is_mix() const { return !parts.empty() && parts[0].weight > 0; }
  /// Returns the part of a mix that has the file.
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

// Records in a shuffle window, which a reader keeps in memory.
constexpr uint64_t kShuffleRecordsMax = uint64_t{4} << 20;

/// The order of records from the ranges of a shard: `block` records of one range, then `block`
/// records of the next.
struct InterleaveSpec {
  uint32_t cycle = 1;  // ranges per shard, from different places of the data set
  uint32_t block = 1;
  bool operator==(const InterleaveSpec&) const = default;
};

constexpr uint32_t kNegativesMax = 1024;

/// Negatives of implicit feedback: to each record of a training or evaluation batch, rows whose
/// item is that of another record of the batch.
struct NegativesSpec {
  std::vector<std::string> fields;  // the fields that describe the item
  uint32_t per_record = 0;          // rows with target 0 for each record
  bool operator==(const NegativesSpec&) const = default;
  bool given() const { return per_record > 0 || !fields.empty(); }
};

struct DataSpec {
  SourceSpec source;
  DataFormat format = DataFormat::kAuto;
  std::string record;  // TFRecord: "example" (also if empty) or "tensor": each record is one tensor
  // CSV/TSV: names in order, with runs of names expanded; empty: from the header.
  std::vector<std::string> columns;
  bool header = false;
  uint32_t skip_lines = 0;           // at the start of each file, before the header
  std::string delimiter;             // CSV/TSV: one character; empty: determined by the format
  bool quoted_newlines = false;      // CSV: a line break in quotes is part of its cell
  bool trim = false;                 // removes blanks around values
  std::vector<std::string> missing;  // texts that mean "missing", in addition to the empty text
  std::vector<FieldSpec> fields;     // runs of names expanded
  std::vector<std::string> program;  // argv without a shell: a program that transforms each record
  // Condition on fields (shared/data/values/expression.h); empty: keeps every record.
  std::string filter;
  InterleaveSpec interleave;
  NegativesSpec negatives;
  std::string shuffle = "shard";  // "shard", "off", or a number: the size of a window in records
  Sharding sharding = Sharding::kAuto;
  uint32_t streams = 0;        // for file, data and off; 0: as many as workers
  uint64_t shard_records = 0;  // 0: auto
  uint32_t prefetch = 0;       // batches that a worker reads ahead; 0: auto
  uint32_t parallelism = 0;    // reading threads per worker; 0: auto
  Cache cache = Cache::kOff;
  uint64_t memory = 0;  // bytes for the input of a worker; 0: auto
  BadRecords bad_records = BadRecords::kFail;
  uint64_t bad_records_max = 0;  // kSkip: more of them fail the job; 0: no limit
  bool operator==(const DataSpec&) const = default;
  /// True if record boundaries can only be found by scanning from the start of the file.
  bool boundaries_need_scan() const;  // in formats.cc
  /// Returns the size of the shuffle window in records, or 0 if it has no fixed size.
  uint64_t shuffle_records() const {
    uint64_t records = 0;  // stays 0 for a word
    std::from_chars(shuffle.data(), shuffle.data() + shuffle.size(), records);
    return records;
  }
  const FieldSpec* find_field(const std::string& name) const {
    for (const FieldSpec& field : fields)
      if (field.name == name) return &field;
    return nullptr;
  }
};

/// Returns the data settings for a source, which may have its own format. The delimiter, the header
/// and the lines before it belong to the format of the job; tables of another format need a header.
DataSpec for_source(DataSpec data, const SourceSpec& source);

/// A layer of the model. type: one of kLayers (layers.h).
struct LayerSpec {
  std::string name;
  std::string type;
  std::vector<std::string> inputs;  // fields or earlier layers; runs of names expanded
  uint32_t dim = 0;                 // embedding, fm: floats of a row; dot: of a vector
  std::vector<uint32_t> units;      // dense: one entry per sublayer
  std::string activation;           // dense: between sublayers; one of kActivationNames
  std::string last;                 // dense: after the last sublayer; "" = linear
  std::string pool = "sum";         // embedding of a bag: "sum" or "mean"
  // embedding, fm: "" = one table per field; "shared" = one table for all inputs, in which equal
  // keys have one row; "by_field" = one table, in which each field has its own rows; otherwise the
  // earlier layer whose rows this layer reads
  std::string table;
  bool bias = true;    // linear, dense
  uint32_t bins = 0;   // piecewise
  uint32_t depth = 2;  // cross: number of cross layers
  uint32_t rank = 0;   // cross: of each kernel; 0: the full kernel
  // Share of the elements that a training step sets to 0. The key is `rate` in a dropout layer.
  float dropout = 0.0F;
  std::optional<InitSpec> init;  // of the weights; none: the default of the layer type
  bool operator==(const LayerSpec&) const = default;

  /// Returns the name of the earlier layer whose rows this layer reads, or null if it has its own.
  const std::string* rows_of() const {
    return table.empty() || table == "shared" || table == "by_field" ? nullptr : &table;
  }
};

/// A number of the job file, or "auto": learned from the training records before training begins.
struct Learned {
  float value = 0.0F;
  bool open = false;  // not learned yet
  bool operator==(const Learned&) const = default;
};

struct OutputSpec {
  std::string name;
  std::string input;
  std::string loss;  // a name in kLosses (losses.h)
  std::string target;
  float weight = 1.0F;
  std::vector<std::string> metrics;  // names, of the metrics that `loss` has
  std::string weights;               // field with sample weights; "" = none
  // offset + scale * input is the prediction if the target is a number, otherwise the logit.
  Learned offset{0.0F}, scale{1.0F};
  float delta = 1.0F;     // huber: as a multiple of scale
  float quantile = 0.5F;  // quantile
  float label_smoothing = 0.0F;
  uint32_t width = 0;  // model.variables: columns of the predictions; 0: those of the target
  bool operator==(const OutputSpec&) const = default;
};

/// A variable of a model without layers. A program computes its gradients (tools/client).
struct ModelVariable {
  std::string name;
  std::vector<std::string> fields;  // whose keys have a row; empty: a dense variable
  uint32_t dim = 0;                 // floats of a row
  std::vector<uint32_t> shape;      // of a dense variable
  std::optional<InitSpec> init;     // none: the default of rows, of kernels, or zero
  bool operator==(const ModelVariable&) const = default;
};

/// The options of a preset. complete_job() expands them to layers and outputs and clears them.
struct PresetOptions {
  std::vector<std::string> inputs;  // empty: every field except the target
  std::string target;               // empty: "label"
  std::string weights;              // field of the records' weights; empty: all have weight 1
  uint32_t dim = 0;                 // 0: the preset's default
  std::vector<uint32_t> units;      // empty: the preset's default
  uint32_t bins = 0;                // piecewise-linear embeddings of numbers; 0: none
  float dropout = 0.0F;             // of hidden layers, or of a factorization machine
  // Of the output; none: learned for a number as target, otherwise 0 and 1.
  std::optional<Learned> offset, scale;
  float delta = 1.0F, quantile = 0.5F, label_smoothing = 0.0F;
  std::string loss;            // empty: the preset's default
  uint32_t classes = 0;        // with softmax_cross_entropy
  bool own_optimizer = false;  // the job sets no optimizer, so the preset may choose one
  bool own_reduction = false;  // with own_optimizer: it may also choose train.reduction
  bool operator==(const PresetOptions&) const = default;
};

struct ModelSpec {
  std::string preset;  // as written; after complete_job() `layers` and `outputs` are its expansion
  PresetOptions options;  // cleared by complete_job()
  std::vector<LayerSpec> layers;
  std::vector<ModelVariable> variables;  // in place of layers
  std::vector<OutputSpec> outputs;
  /// Returns whether a program outside of Downpour computes the model.
  bool is_custom() const { return !variables.empty(); }
  bool operator==(const ModelSpec&) const = default;
};

/// Limits of a batch's gradients. 0: no limit.
struct ClipSpec {
  float value = 0;        // of each element's magnitude
  float norm = 0;         // of the L2 norm of each variable's gradient
  float global_norm = 0;  // of the L2 norm of all gradients together
  bool given() const { return value > 0 || norm > 0 || global_norm > 0; }
  bool operator==(const ClipSpec&) const = default;
};

struct OptimizerRule {
  std::string variables;  // glob over variable names; the first match wins
  OptimizerSpec optimizer;
  bool operator==(const OptimizerRule&) const = default;
};

/// An interval by time or by steps. If both are 0: only at the end of each epoch.
struct Interval {
  int64_t ns = 0;
  uint64_t steps = 0;
  bool operator==(const Interval&) const = default;
};

/// When checkpoints are taken, in addition to the end of each epoch and of the job, and how many
/// are kept.
struct CheckpointSpec {
  Interval every{.ns = 600'000'000'000};
  uint32_t keep = 3;
  bool incremental = false;  // a checkpoint holds only the rows that changed since the one before
  uint32_t full_every = 10;  // incremental: one in so many checkpoints is full
  bool fall_back = true;  // if the newest checkpoint is damaged, resume from the newest intact one
  bool operator==(const CheckpointSpec&) const = default;
};

/// A new run that starts with the variables of another run's newest checkpoint, or of a file.
struct WarmStartSpec {
  std::string run;    // absolute path of its folder; empty: none
  std::string file;   // absolute path of an .npz or .safetensors file; empty: none
  bool slots = true;  // also the optimizers' state, of a run
  const std::string& source() const { return file.empty() ? run : file; }  // empty: none
  bool operator==(const WarmStartSpec&) const = default;
};

constexpr uint32_t kEpochsMax = 1'000'000;  // with `steps`, this number means no limit
constexpr uint32_t kBatchSizeMax = 1 << 20;

/// Returns the defaults of `train.outer`. SGD with rate 1 sets the variables to the mean of the
/// replicas' variables. The settings of momentum are those of DiLoCo (Douillard et al. 2023).
inline OptimizerSpec outer_defaults(OptimizerType type) {
  OptimizerSpec spec = optimizer_defaults(type);
  spec.learning_rate = type == OptimizerType::kSgd ? 1.0F : 0.7F;
  spec.nesterov = type == OptimizerType::kMomentum;
  return spec;
}

struct TrainSpec {
  uint32_t epochs = 1;           // kEpochsMax if only `steps` is given
  uint64_t steps = 0;            // batches, over all epochs; 0: no limit
  uint64_t steps_per_epoch = 0;  // for a source with one shard; 0: to the end of the source
  uint32_t batch_size = 512;
  // Of all replicas together. load_job() divides it and sets batch_size; afterwards it is 0.
  uint32_t global_batch_size = 0;
  bool drop_remainder = false;
  std::string reduction = "mean";  // or "sum"
  TrainMode mode = TrainMode::kAsync;
  // Batches that a worker may be ahead of the slowest one. Only in modes that have the key.
  std::optional<uint64_t> staleness;
  // Batches that a step sums up. Only in modes that have the key; then it is set.
  std::optional<uint64_t> replicas;
  // Replicas that a step may leave out, because their batches come late. 0 in modes without steps.
  uint32_t backups = 0;
  // Batches that a replica trains alone in a round, or kSyncEveryEpoch. Only in modes that have the
  // key; then it is set.
  std::optional<uint64_t> sync_every;
  // Replicas whose changes of a row are averaged at the end of a round: "all", or "touched": those
  // that have trained a batch with the row.
  std::string average = "all";
  // Applies the mean of the replicas' changes at the end of a round.
  OptimizerSpec outer = outer_defaults(OptimizerType::kSgd);
  // Most batches that a worker has taken from its readers and that are not yet applied everywhere.
  uint32_t in_flight = 2;
  CheckpointSpec checkpoint;
  WarmStartSpec warm_start;
  bool quarantine = false;  // leave out and count a batch that fails at every attempt
  // "stop", or "skip": leave out and count a batch whose loss or gradient is not finite.
  std::string on_nan = "stop";
  bool operator==(const TrainSpec&) const = default;
  /// Returns the number of records of a part: of a batch, or of all batches of a replica's round. A
  /// part has one batch id.
  uint32_t part_records() const { return uint32_t(batch_size * round_batches()); }
  /// Returns true if a round of a replica is its share of an epoch.
  bool whole_epochs() const { return sync_every == kSyncEveryEpoch; }
  /// Returns the number of batches of a part. If it is a share of an epoch: the most that it may
  /// have.
  uint64_t round_batches() const {
    return whole_epochs() ? kBatchSizeMax / batch_size : sync_every.value_or(1);
  }
  /// Returns the number of records that an evaluation or a prediction computes at once.
  uint32_t eval_records() const { return whole_epochs() ? batch_size : part_records(); }
  /// Returns how many shards an epoch is divided into, one per replica; 0: not by replicas.
  uint32_t shares() const { return whole_epochs() ? uint32_t(replicas.value_or(1)) : 0; }
};

/// Ends training when the evaluation loss stops improving.
struct EarlyStopSpec {
  uint32_t patience = 0;  // evaluations in a row without a better result; 0: never
  std::string metric;     // "loss" or empty: the loss; otherwise a metric of the outputs
  float min_delta = 0;    // a result counts as better only if it is by more than this
  bool operator==(const EarlyStopSpec&) const = default;
};

/// A field by whose values the evaluation data are divided. Each value has metrics of its own, and
/// all others share one row.
struct SliceSpec {
  std::string field;
  std::vector<std::string> values;  // empty: chosen before training begins
  uint32_t top = 20;                // if they are chosen: the most frequent ones
  bool operator==(const SliceSpec&) const = default;
  /// Returns the number of slices: the values and the others.
  size_t rows() const { return (values.empty() ? top : values.size()) + 1; }
};

struct EvalSpec {
  SourceSpec source;   // empty: none
  double holdout = 0;  // share of the training records, by hash of file and offset
  std::string every = "epoch";
  std::vector<std::string> metrics;
  uint32_t top_k = 5;  // of the metric top_k_accuracy
  std::vector<SliceSpec> slices;
  std::string group_by;   // field whose values are the groups of gauc and ndcg; empty: none
  uint32_t ndcg_at = 10;  // of ndcg: the first records of each group
  std::string unknown_labels = "error";  // "skip": records whose label is none of the classes
  EarlyStopSpec early_stop;
  // The result of the run is the epoch with the best evaluation, not the last epoch.
  bool keep_best = false;
  bool raw_predictions = false;  // `predict` writes the values before the outputs' functions
  bool operator==(const EvalSpec&) const = default;
};

struct ClusterSpec {
  uint32_t ps = 1;
  bool ps_in_workers = false;  // each worker process also runs a ps; then `ps` is their number
  uint32_t workers = 1;
  uint32_t input_workers = 0;  // number of input processes
  // Between local processes: "ipc" or "tcp". A one-process run always uses inproc.
  std::string transport = "ipc";
  uint32_t threads = 0;     // 0: as many as affinity and cgroup allow
  uint32_t ps_threads = 1;  // ps cores per ps process
  uint64_t ps_memory = 0;   // bytes for the tables of one ps; 0: what its machine allows
  uint32_t restarts = 3;    // of one local process, in a row without progress of the job
  bool rebalance = true;    // partitions move away from a busy ps
  // Time limits in nanoseconds.
  int64_t start_wait_ns = 60'000'000'000;      // at the start: wait for all ps and the first worker
  int64_t workers_wait_ns = 60'000'000'000;    // without any worker: then the job ends
  int64_t ps_wait_ns = 30'000'000'000;         // for a lost ps: then other ps take its partitions
  int64_t chief_silence_ns = 60'000'000'000;   // others: without a message from the chief
  int64_t claims_wait_ns = 2'000'000'000;      // a new chief: wait for claims of ps
  int64_t adopt_timeout_ns = 600'000'000'000;  // for a ps to load its partitions
  bool operator==(const ClusterSpec&) const = default;
};

struct Job {
  std::string name;
  uint64_t seed = 1;
  std::string run_dir;        // absolute
  std::string base_dir;       // folder of the job file; base of relative paths
  uint32_t partitions = 256;  // P, a power of two
  DataSpec data;
  ModelSpec model;
  OptimizerSpec optimizer;
  std::vector<OptimizerRule> optimizer_rules;
  ClipSpec clip;
  float ema = 0;  // decay of the averages of all weights, with which the model predicts; 0: none
  TrainSpec train;
  EvalSpec eval;
  ClusterSpec cluster;
  bool operator==(const Job&) const = default;
};

/// Returns true if the chief cuts each epoch of the job's program into pieces, although the program
/// itself always starts at the first record.
bool gives_pieces(const Job& job);

}  // namespace downpour
