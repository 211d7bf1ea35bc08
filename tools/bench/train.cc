// Measures whole jobs in this process, as `downpour train` runs them, from text to saved model.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chief/runtime/job_setup.h"
#include "chief/runtime/run_setup.h"
#include "shared/base/check.h"
#include "shared/base/str.h"
#include "shared/data/reading/dataset.h"
#include "shared/env/process.h"
#include "shared/model/graph.h"
#include "shared/plan/shard.h"
#include "shared/synth/synth.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"
#include "tools/embedded/roles.h"

namespace downpour::tools {
namespace {

constexpr const char* kLogistic = R"(
data      = { source = "train.svm", format = "libsvm", shuffle = "off" }
model     = { preset = "logistic_regression" }
optimizer = { type = "ftrl", learning_rate = 0.1 }
train     = { epochs = 1, batch_size = 4096, in_flight = 2 }
)";

constexpr const char* kWideDeep = R"(
[data]
source  = "train.tsv"
format  = "criteo"
shuffle = "off"
fields."C1..C26" = { type = "string", default = "", transform = [
  { op = "hash", buckets = 1048576 }] }

[model]
layers = [
  { name = "wide",  type = "linear",    inputs = ["C1..C26", "I1..I13"] },
  { name = "emb",   type = "embedding", inputs = ["C1..C26"], dim = 16, table = "shared" },
  { name = "tower", type = "dense",     inputs = [
    "emb", "I1..I13"], units = [64, 32, 1], activation = "relu" },
  { name = "logit", type = "add",       inputs = ["wide", "tower"] } ]
outputs = [{ name = "click", input = "logit", loss = "logistic", target = "label", metrics = [
  "auc", "logloss"] }]

[optimizer]
type = "adagrad"
learning_rate = 0.05

[train]
batch_size = 512
in_flight  = 4
)";

Job job_of(const std::string& folder, const char* text) {
  const std::string path = folder + "/job.toml";
  std::ofstream(path) << "run_dir = \"run\"\n" << text;
  return must(chief::load_given_job(path, {})).loaded.job;
}

/// Reads and parses all training data with as many threads as training may use. No job can be
/// faster. Returns the seconds.
double parse_seconds(const chief::RunPlan& plan) {
  const auto graph = must(model::Graph::build(plan.job));
  const auto reading =
      data::make_read_plan(plan.job, graph->inputs(), graph->output_widths(), plan.job.data.source,
                           plan.train_files, plan.job.eval.holdout);
  const plan::ShardMap shards =
      data::map_shards(plan.job, plan.train_files,
                       plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams));
  std::atomic<uint32_t> next = 0;
  const auto read = [&] {
    Batch batch;
    for (uint32_t i = next++; i < shards.count(); i = next++) {
      const auto reader =
          must(data::open_shard(reading, data::Split::kTrain, {0, i}, shards.at(0, i), 0));
      while (must(reader->next(batch))) {
      }
      if (reader->totals().end_offset == plan::kOpenEnd) next = shards.count();
    }
  };
  const double begin = wall_seconds();
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t < allowed_cpus(); ++t) threads.emplace_back(read);
  read();
  for (std::thread& thread : threads) thread.join();
  return wall_seconds() - begin;
}

/// Trains a planned run with one ps and one worker on all cores until the model is saved. Returns
/// the seconds.
double train_seconds(const chief::RunPlan& plan) {
  const double begin = wall_seconds();
  PosixStorage storage;
  auto config = must(chief::open_run(storage, plan, {.fresh = true, .ps_cores = 1, .workers = 1}));
  const chief::Finish finish =
      must(run_roles(storage, plan, std::move(config),
                     {.events_path = plan.job.run_dir + "/events.jsonl"}, allowed_cpus()));
  DP_CHECK(finish.code == 0, finish.code, finish.error ? finish.error->what : "");
  return wall_seconds() - begin;
}

BenchResult bench_job(const std::string& name, const char* text, const char* file,
                      const SynthOptions& data, int rounds) {
  const ScratchDir scratch;
  must(downpour::data::synthesize(data, scratch.path() + "/" + file, allowed_cpus()));
  const Job job = job_of(scratch.path(), text);
  const double thousands = double(data.rows) / 1e3;
  Repeated repeated;
  for (int round = 0; round < rounds; ++round) {
    const auto plan = must(chief::plan_run(job, wire::Purpose::kTrain));
    const double limit_s = parse_seconds(plan);
    repeated.add(thousands / train_seconds(plan), thousands / limit_s);
  }
  return repeated.result(name, "k ex/s", "reading and parsing alone");
}

}  // namespace

std::vector<BenchResult> bench_train(const BenchOptions& options) {
  transport::tune_malloc_for_frames();
  const int rounds = options.quick ? 1 : 3;
  SynthOptions data;
  data.seed = options.seed;
  data.rows = options.quick ? 4'000 : 500'000;
  data.format = SynthFormat::kLibsvm;
  std::vector<BenchResult> results;
  results.push_back(bench_job("logistic regression, FTRL, batch 4096, libsvm", kLogistic,
                              "train.svm", data, rounds));
  data.rows = options.quick ? 4'000 : 300'000;
  data.format = SynthFormat::kTsv;
  results.push_back(
      bench_job("Wide & Deep, Adagrad, batch 512, criteo", kWideDeep, "train.tsv", data, rounds));
  return results;
}

}  // namespace downpour::tools
