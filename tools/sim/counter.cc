#include "tools/sim/counter.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unistd.h>

#include "chief/runtime/job_setup.h"
#include "shared/base/hash.h"
#include "shared/env/storage.h"
#include "shared/job/job_file.h"
#include "shared/model/graph.h"
#include "worker/runtime/shard_reading.h"

namespace downpour::sim {
namespace {

constexpr const char* kTarget = "1073741824";  // 2^30
constexpr const char* kRate =
    "4.656612873077392578125e-10";  // 2^-31: the loss is the square, not half of it

std::string counter_data(const CounterSize& size, uint32_t file) {
  std::string text;
  const uint64_t records = uint64_t{size.shards} * size.batches * size.records;
  // Keys of one length, so that all lines are as long and the shards as large.
  const uint64_t begin = records * file / size.files, end = records * (file + 1) / size.files;
  for (uint64_t r = begin; r < end; ++r) text += str(kTarget, ' ', 1'000'000 + r, ":1\n");
  return text;
}

std::string counter_toml(const CounterSize& size, const std::string& folder,
                         const std::string& sources) {
  return str(
      "name = \"counter\"\npartitions = ", size.partitions, "\nrun_dir = \"", folder,
      "/run\"\n[data]\nsource = ", sources, "\nformat = \"libsvm\"\nsharding = \"", size.sharding,
      "\"\n", size.sharding == "auto" ? "" : "streams = 3\n",
      "shard_records = ", size.batches * size.records, "\ninterleave = { cycle = ", size.cycle,
      " }\nshuffle = ", size.window > 0 ? str(size.window) : "\"shard\"",
      "\n[[model.layers]]\nname = \"w\"\ntype = \"linear\"\ninputs = [\"features\"]\nbias = false\n"
      "[[model.outputs]]\nname = \"y\"\ninput = \"w\"\nloss = \"squared\"\ntarget = \"label\"\n"
      "[optimizer]\ntype = \"sgd\"\nlearning_rate = ",
      kRate, "\n[train]\nsteps = ", size.steps, "\nepochs = ", size.epochs, "\nbatch_size = ", size.records,
      "\nreduction = \"sum\"\n[train.checkpoint]\nevery = 40\n"
      "incremental = true\nfull_every = 4\n");
}

}  // namespace

Result<Job> make_counter_job(const CounterSize& size) {
  const std::string folder = str("/tmp/downpour-sim-", ::getuid());
  PosixStorage storage;
  DP_TRY_VOID(storage.make_dirs(folder));
  std::string sources;
  for (uint32_t f = 0; f < size.files; ++f) {
    const std::string text = counter_data(size, f);
    const std::string file = str(folder, "/counter-", std::hex, hash_string(text), ".libsvm");
    DP_TRY(const bool there, storage.exists(file));
    if (!there) DP_TRY_VOID(storage.write_file_atomic(file, as_bytes(text)));
    sources += str(sources.empty() ? "" : ", ", size.mix ? "{ weight = 1, path = " : "", '"', file,
                   '"', size.mix ? " }" : "");
  }
  sources = size.program ? str("{ exec = [\"cat\", ", sources, "] }") : str("[", sources, "]");
  const JobSource source{folder + "/counter.toml", counter_toml(size, folder, sources)};
  DP_TRY(LoadedJob loaded, load_job(source, {}, chief::process_environment()));
  std::string sniffed;
  DP_TRY_VOID(chief::complete_from_data(loaded.job, sniffed));
  return std::move(loaded.job);
}

Result<CounterOracle> CounterOracle::make(const chief::RunPlan& plan) {
  const Job& job = plan.job;
  const auto bits = uint32_t(__builtin_ctz(job.partitions));
  DP_TRY(const auto graph, model::Graph::build(job));
  worker::ReaderOptions options;
  options.tables = graph->tables();
  options.train =
      data::make_read_plan(job, graph->inputs(), graph->output_widths(), job.data.source, plan.train_files, 0);
  options.train_shards = data::map_shards(
      job, plan.train_files, plan::cut_streams(plan.train_files, plan.shard_bytes, plan.streams));
  CounterOracle oracle;
  oracle.epochs_ = job.train.epochs;
  const uint32_t shards = options.train_shards.count();
  oracle.by_partition_.resize(job.partitions);
  std::map<uint64_t, Entry> entries;
  const auto wrong = [](const char* what) {
    return Error{ErrorCode::kConfig, str("not a counter model: ", what)};
  };
  oracle.keys_.resize(oracle.epochs_);
  for (uint32_t epoch = 0; epoch < oracle.epochs_; ++epoch) {
    bool ended = false;  // an open stream
    for (uint32_t place = 0; place < shards && !ended; ++place) {
      oracle.keys_[epoch].emplace_back();
      worker::ShardReading reading(
          options, {.lease = {.shard = {epoch, place}}, .first_batch = 0, .reading = 1});
      for (;;) {
        worker::ReadItem item = reading.next(std::make_shared<worker::PreparedBatch>(), nullptr);
        if (item.failure) return item.failure->error;
        if (item.end) {
          ended = item.end->counts.end_offset == plan::kOpenEnd;
          break;
        }
        const Batch& batch = item.batch->batch;
        if (batch.tables.size() != 1 || batch.tables[0].keys.size() != batch.records)
          return wrong("a key is in several records");
        oracle.keys_[epoch][place].push_back(batch.tables[0].keys);
        if (epoch == 0) oracle.records_ += batch.records;
        for (const uint64_t key : batch.tables[0].keys) {
          Entry& entry = entries[key];
          entry.key = key;
          entry.partition = partition_of(row_hash(TableId{0}, key), bits);
          entry.batches.push_back(batch.id);
          if (entry.batches.size() != epoch + 1) return wrong("a key is in several records");
        }
      }
    }
  }
  for (const auto& [key, entry] : entries)
    oracle.by_partition_[raw(entry.partition)].push_back(entry);
  return oracle;
}

const CounterOracle::Entry* CounterOracle::find(uint64_t key) const {
  for (const auto& partition : by_partition_) {
    const auto at = std::lower_bound(partition.begin(), partition.end(), key,
                                     [](const Entry& e, uint64_t k) { return e.key < k; });
    if (at != partition.end() && at->key == key) return &*at;
  }
  return nullptr;
}

const std::vector<uint64_t>& CounterOracle::keys(BatchId batch) const {
  static const std::vector<uint64_t> none;
  if (batch.epoch >= keys_.size() || batch.shard >= keys_[batch.epoch].size()) return none;
  const auto& batches = keys_[batch.epoch][batch.shard];
  return batch.batch < batches.size() ? batches[batch.batch] : none;
}

}  // namespace downpour::sim
