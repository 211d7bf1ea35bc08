// Reference jobs that show the scope of the job file. Supported jobs load; for the others the error
// names the first thing that is not implemented.
#include "tests/shared/job/job_test_support.h"

namespace downpour {
namespace {

struct ReferenceJob {
  const char* text;
  const char* missing;  // the first thing in the job that is not implemented
};

const ReferenceJob kReferenceJobs[] = {
    {R"toml(# 02 Criteo TSV, Wide & Deep. [data] and [model] are what `preset = "criteo"` and
# `preset = "wide_deep"` expand to.
data.source  = "day_*.tsv"
# A..B names a run of columns, here and wherever a field is named.
data.columns = ["label", "I1..I13", "C1..C26"]
data.fields."I1..I13" = { type = "float32", default = 0, transform = [
  { op = "clip", min = 0 }, "log1p"] }
# The name of the field is hashed, too.
data.fields."C1..C26" = { type = "string", default = "", transform = [
  { op = "hash", buckets = 1048576 }] }
data.fields.label     = { type = "float32" }
model.layers = [
  { name = "wide",  type = "linear",    inputs = ["C1..C26", "I1..I13"] },
  # The default is a table per field.
  { name = "emb",   type = "embedding", inputs = ["C1..C26"], dim = 16, table = "shared" },
  # The inputs are concatenated. The last unit is linear.
  { name = "tower", type = "dense",     inputs = [
    "emb", "I1..I13"], units = [64, 32, 1], activation = "relu" },
  { name = "logit", type = "add",       inputs = ["wide", "tower"] } ]
model.outputs = [{ name = "click", input = "logit", loss = "logistic", target = "label", metrics = [
  "auc", "logloss", "calibration"] }]
optimizer = { type = "adagrad", learning_rate = 0.05, rules = [
  { variables = "wide/*", type = "ftrl", learning_rate = 0.1, l1 = 1.0 }] }
train     = { epochs = 1, batch_size = 512, in_flight = 4 }
# A hash of file and offset selects the same records in every epoch and after a resume.
eval      = { holdout = 0.05, every = "5m" }
cluster   = { ps = 2, workers = 2 }
)toml",
     "eval.every"},
    {R"toml(# 12 tomorrow's data on yesterday's model, and long runs
name      = "ctr-${DAY}"
data.source      = "clicks/${DAY}/*.tsv"
data.format      = "criteo"
data.bad_records = "skip"
data.bad_records_max = 1000
model     = { preset = "wide_deep", dim = 16, units = [64, 32] }
optimizer = { type = "adagrad", learning_rate = 0.05 }
train.epochs     = 1
train.batch_size = 512
train.warm_start = { run = "runs/ctr-${PREVIOUS_DAY}", slots = true }
train.checkpoint = { every = "10m", keep = 3 }
train.max_time   = "6h"
train.quarantine = true
)toml",
     "train.max_time"},
};

TEST_CASE("the error of an unsupported reference job names the first thing that is not implemented",
          "[job][reference]") {
  for (const ReferenceJob& reference : kReferenceJobs) {
    auto job = test::load_text(reference.text, {}, {{"DAY", "2"}, {"PREVIOUS_DAY", "1"}});
    INFO(reference.text);
    REQUIRE_FALSE(job);
    INFO(job.error().what);
    CHECK(job.error().id == "DP-2105");
    CHECK(job.error().what.find(reference.missing) != std::string::npos);
    CHECK(job.error().where.starts_with("/jobs/job.toml:"));
  }
}

TEST_CASE("reference job 03 reads as written", "[job][reference]") {
  const auto loaded = test::load_text(
      R"toml(# 03 TFRecord: tf.Example, some features holding serialized tensors; softmax MLP
data.source     = { path = "train-*.tfrecord.gz" }
data.record     = "example"  # or "tensor": each record is one serialized tensor
data.interleave = { cycle = 8, block = 16 }
# serialize_tensor makes the bytes. Another dtype or shape is a bad record.
data.fields.image = { type = "float32", shape = [128], encoding = "tensor" }
data.fields.tags.type      = "string"
data.fields.tags.shape     = [-1]
data.fields.tags.feature   = "item/tags"
data.fields.tags.default   = []
data.fields.tags.transform = [
  { op = "vocabulary", file = "tags.txt", unknown = "hash", buckets = 64 } ]
data.fields.label = { type = "int64" }
model.layers = [
  { name = "bag", type = "embedding", inputs = ["tags"], dim = 8, pool = "mean" },
  { name = "mlp", type = "dense", inputs = [
    "image", "bag"], units = [128, 10], activation = "relu" } ]
model.outputs = [
  { name = "class", input = "mlp", loss = "softmax_cross_entropy", target = "label", metrics = [
    "accuracy"] }]
optimizer = { type = "adam", learning_rate = 0.001 }
train     = { epochs = 5, batch_size = 32, drop_remainder = true }
)toml");
  REQUIRE(loaded);
  CHECK(loaded->job.data.interleave == InterleaveSpec{.cycle = 8, .block = 16});
  CHECK(loaded->job.train.drop_remainder);
}

TEST_CASE("reference job 11 reads as written, with the replicas that train whole epochs alone",
          "[job][reference]") {
  const auto loaded = test::load_text(
      R"toml(# 11 model averaging
# Replicas train alone for sync_every steps. Then each continues from the mean of their variables,
# weighted by records.
data.source   = "shard-*.tfrecord"
data.sharding = "file"
data.fields   = { x = { type = "float32", shape = [128] }, label = { type = "int64" } }
model     = { preset = "softmax_mlp", inputs = ["x"], target = "label", units = [128, 10] }
# sync_every also takes a number of steps.
train     = { epochs = 3, batch_size = 32, mode = "local", replicas = 4, sync_every = "epoch" }
# If runs train separately (name = "part-${SHARD_ID}", source = "shard-${SHARD_ID}.tfrecord"),
# `downpour average runs/part-*` merges their models. It keeps a row that only one model has, and
# does not average slots.
)toml");
  REQUIRE(loaded);
  CHECK(loaded->job.train.whole_epochs());
  CHECK(loaded->job.train.shares() == 4);
}

TEST_CASE("reference job 08 reads as written, with the mode that limits the staleness",
          "[job][reference]") {
  const auto loaded = test::load_text(
      R"toml(# 08 bounded staleness (SSP)
data      = { source = "clicks.libsvm" }
model     = { preset = "deepfm", dim = 16, units = [256, 128], target = "label" }
optimizer = { type = "adagrad", learning_rate = 0.02 }
train     = { steps = 200000, batch_size = 1024, mode = "bounded", staleness = 4, in_flight = 2 }
cluster   = { ps = 4, workers = 8, transport = "ipc" }
)toml");
  REQUIRE(loaded);
  CHECK(loaded->job.train.staleness == 4);
  CHECK(loaded->job.model.preset == "deepfm");
}

TEST_CASE("reference job 10 reads as written", "[job][reference]") {
  const auto loaded = test::load_text(
      R"toml(# 10 input service: processes that only read, parse and batch; two stores, mixed
# Credentials come from the environment, never from the job.
data.source   = [
  { path = "s3://logs-eu/*.jsonl.zst", weight = 0.7 },
  { path = "s3://logs-us/*.jsonl.zst", weight = 0.3 } ]
data.filter   = "country != 'XX' && age >= 18"
data.prefetch = 16
data.fields.age     = { type = "float32", default = 0, transform = ["standardize"] }
data.fields.country = { type = "string", transform = [{ op = "hash", buckets = 1024 }] }
data.fields.label   = { type = "float32" }
model         = { preset = "wide_deep", target = "label" }
optimizer     = { type = "adagrad" }
train         = { epochs = 1, batch_size = 2048 }
cluster       = { ps = 2, workers = 2, input_workers = 4 }
)toml");
  REQUIRE(loaded);
  CHECK(loaded->job.cluster.input_workers == 4);
  CHECK(loaded->job.data.source.parts.size() == 2);
}

TEST_CASE("reference job 01 reads as written", "[job][reference]") {
  const Job job = test::completed(R"(
data      = { source = "a9a", format = "libsvm" }
model     = { preset = "logistic_regression" }
optimizer = { type = "ftrl", learning_rate = 0.1, l1 = 0.5 }
train     = { epochs = 5, batch_size = 256 }
eval      = { source = "a9a.t", metrics = [
  "auc", "logloss"], early_stop = { metric = "logloss", patience = 2 } }
)");
  CHECK(job.data.source.paths == std::vector<std::string>{"a9a"});
  CHECK(job.data.format == DataFormat::kLibsvm);
  CHECK(job.optimizer.type == OptimizerType::kFtrl);
  CHECK(job.optimizer.learning_rate == 0.1F);
  CHECK(job.optimizer.l1 == 0.5F);
  CHECK(job.optimizer.beta == 1.0F);
  CHECK(job.train.epochs == 5);
  CHECK(job.train.batch_size == 256);
  CHECK(job.eval.source.paths == std::vector<std::string>{"a9a.t"});
  CHECK(job.eval.metrics == std::vector<std::string>{"auc", "logloss"});
  CHECK(job.eval.early_stop == EarlyStopSpec{.patience = 2, .metric = "logloss"});
}

TEST_CASE("reference job 02 without the time between evaluations reads as written",
          "[job][reference]") {
  std::string text = kReferenceJobs[0].text;
  const size_t every = text.find(", every = \"5m\"");
  REQUIRE(every != std::string::npos);
  text.erase(every, std::string(", every = \"5m\"").size());
  Job job = test::loaded(text);
  CHECK(job.data.columns.size() == 40);
  CHECK(job.data.columns[1] == "I1");
  CHECK(job.data.columns[39] == "C26");
  job.data.format = DataFormat::kTsv;
  REQUIRE(complete_job(job));
  REQUIRE(job.data.fields.size() == 40);
  CHECK(job.data.fields[0].name == "label");
  const FieldSpec& number = job.data.fields[13];
  CHECK(number.name == "I13");
  CHECK(number.fallback == "0");
  REQUIRE(number.transform.size() == 2);
  CHECK(number.transform == std::vector<TransformSpec>{ops::Clip{.min = 0.0}, ops::Log1p{}});
  const FieldSpec& category = job.data.fields[14];
  CHECK(category.name == "C1");
  CHECK(category.type == FieldType::kString);
  CHECK(category.fallback == "");
  CHECK(category.transform == std::vector<TransformSpec>{ops::Hash{.buckets = 1048576}});
  REQUIRE(job.model.layers.size() == 4);
  CHECK(job.model.layers[0].inputs.size() == 39);
  CHECK(job.model.layers[1].table == "shared");
  CHECK(job.model.layers[2].units == std::vector<uint32_t>{64, 32, 1});
  CHECK(job.model.layers[3].inputs == std::vector<std::string>{"wide", "tower"});
  CHECK(job.model.outputs[0].metrics == std::vector<std::string>{"auc", "logloss", "calibration"});
  CHECK(job.optimizer.type == OptimizerType::kAdagrad);
  REQUIRE(job.optimizer_rules.size() == 1);
  CHECK(job.optimizer_rules[0].variables == "wide/*");
  CHECK(job.optimizer_rules[0].optimizer.l1 == 1.0F);
  CHECK(job.train.in_flight == 4);
  CHECK(job.eval.holdout == 0.05);
  CHECK(job.cluster.ps == 2);
  CHECK(job.cluster.workers == 2);
}

TEST_CASE("reference job 05 reads as written", "[job][reference]") {
  const Job job = test::completed(
      R"toml(# 05 a generator: any program that writes records to its stdout
# `exec` is an argument list without a shell. The program may also write jsonl, csv or tfrecord. Npy
# output has arrays one after the other, field by field; the first dimension is the number of rows,
# so the program may write whole batches.
data.source.exec    = ["python3", "generate.py"]
data.source.format  = "npy"
data.source.replay  = "shard"
data.source.records = 192000
# The signature: a record that differs is an error with the number of the record, the
# expected and the observed type.
data.fields = { x = { type = "float32", shape = [128] }, y = { type = "int64" } }
model       = { preset = "softmax_mlp", inputs = ["x"], target = "y", units = [128, 10] }
train       = { epochs = 3, batch_size = 64 }
# replay = "none": one run and one reader, in the program's order, at most once.
# "epoch": the same records for the same DOWNPOUR_SEED and DOWNPOUR_EPOCH, one reader.
# "shard": also cut, by DOWNPOUR_SHARD_BEGIN and DOWNPOUR_SHARD_END of `records = N`.
# A replayed batch whose hash differs from the first reading stops the job: "not replayable".
# If the program has no end of its own, set train.steps_per_epoch = 1000.
)toml");
  CHECK(job.data.format == DataFormat::kNpy);
  CHECK(job.data.source.exec == std::vector<std::string>{"python3", "generate.py"});
  CHECK(job.data.source.replay == Replay::kShard);
  CHECK(job.data.source.records == 192'000);
  CHECK(job.data.find_field("x")->shape == std::vector<int64_t>{128});
}

TEST_CASE("reference job 09 reads as written", "[job][reference]") {
  Job job = test::loaded(
      R"(# 09 static sharding
# Stream i reads the files i mod n. Worker i works on stream i while it lives.
data.source   = "sharded/shard-*.tfrecord"
data.sharding = "file"
data.streams  = 4
data.fields   = { x = { type = "float32", shape = [128] }, label = { type = "int64" } }
model     = { preset = "softmax_mlp", inputs = ["x"], target = "label", units = [128, 10] }
train     = { epochs = 1, batch_size = 32 }
# Start each as: downpour-worker --index "$SHARD_ID" --chief HOST:PORT. The chief refuses a second
# worker with the same index.
cluster   = { workers = 4 }
)");
  job.data.format = DataFormat::kTfrecord;
  REQUIRE(complete_job(job));
  CHECK(job.data.sharding == Sharding::kFile);
  CHECK(job.data.streams == 4);
  CHECK(job.data.find_field("x")->shape == std::vector<int64_t>{128});
  CHECK(job.cluster.workers == 4);
}

}  // namespace
}  // namespace downpour
