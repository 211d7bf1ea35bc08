// Measures reading every format on one thread, and arrays on all cores, too. It reads files in the
// page cache into batches of 512, against a copy of the same bytes with as many threads.
#include "tools/bench/input.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "chief/runtime/job_setup.h"
#include "shared/base/check.h"
#include "shared/base/rng.h"
#include "shared/base/str.h"
#include "shared/data/formats/example/tfrecord_writer.h"
#include "shared/env/process.h"
#include "shared/synth/synth.h"
#include "tools/bench/bench.h"
#include "tools/bench/measure.h"

namespace downpour::tools {
namespace {

/// Records are shuffled within a shard, as in training. The model is not run; its inputs only
/// determine the fields to read.
constexpr const char* kTables = R"(
model.layers  = [
  { name = "wide",  type = "linear", inputs = ["C1..C26"] },
  { name = "deep",  type = "dense",  inputs = ["I1..I13"], units = [1] },
  { name = "logit", type = "add",    inputs = ["wide", "deep"] } ]
model.outputs = [{ name = "click", input = "logit", loss = "logistic", target = "label" }]
train.batch_size = 512
)";

constexpr const char* kLibsvm = R"(
data = { source = "data", format = "libsvm" }
model.preset = "logistic_regression"
train.batch_size = 512
)";

constexpr const char* kCriteo = R"(
data = { source = "data", format = "criteo" }
)";

constexpr const char* kCsv = R"(
data.source  = "data"
data.format  = "csv"
data.header  = true
data.columns = ["label", "I1..I13", "C1..C26"]
data.fields.label = {}
data.fields."I1..I13" = { default = 0 }
data.fields."C1..C26" = { type = "string", default = "", transform = [
  { op = "hash", buckets = 1048576 }] }
)";

constexpr const char* kNpy = R"(
data.source = "."
data.format = "npy"
data.fields = { x = { shape = [128] }, label = {} }
model.layers  = [{ name = "logit", type = "dense", inputs = ["x"], units = [1] }]
model.outputs = [{ name = "click", input = "logit", loss = "logistic", target = "label" }]
train.batch_size = 512
)";

/// Of the formats whose values have names and types; the format is added.
constexpr const char* kNamed = R"(
data.source = "data"
data.fields.label = {}
data.fields."I1..I13" = {}
data.fields."C1..C26" = { type = "int64", transform = ["identity"] }
)";

/// Writes examples of 26 integers, 13 floats and a label, 655 bytes each on average. The order of
/// the features differs between records, as in files written by TensorFlow.
void write_examples(const std::string& path, uint64_t rows, uint64_t seed) {
  std::vector<std::string> names;
  for (int i = 1; i <= 26; ++i) names.push_back(str("C", i));
  for (int i = 1; i <= 13; ++i) names.push_back(str("I", i));
  names.emplace_back("label");
  Rng rng(seed);
  data::ExampleBuilder builder;
  std::string text;
  for (uint64_t row = 0; row < rows; ++row) {
    builder.clear();
    std::swap(names[rng.below(names.size())], names[rng.below(names.size())]);
    for (const std::string& name : names) {
      const int64_t id = int64_t(rng.below(1 << 20));
      const float x = float(rng.below(1000)) / 100;
      const int64_t label = int64_t(rng.below(2));
      if (name[0] == 'I') {
        builder.add(name, std::span(&x, 1));
      } else {
        builder.add(name, std::span(name[0] == 'C' ? &id : &label, 1));
      }
    }
    data::append_frame(text, builder.bytes());
  }
  std::ofstream(path, std::ios::binary) << text;
}

void write_json(const std::string& path, uint64_t rows, uint64_t seed) {
  Rng rng(seed);
  std::ofstream out(path);
  std::string line;
  for (uint64_t row = 0; row < rows; ++row) {
    line = str("{\"label\": ", rng.below(2));
    for (int i = 1; i <= 13; ++i) line += str(", \"I", i, "\": ", double(rng.below(1000)) / 100);
    for (int i = 1; i <= 26; ++i) line += str(", \"C", i, "\": ", rng.below(1 << 20));
    out << line << "}\n";
  }
}

void write_npy(const std::string& path, const std::string& shape,
               const std::vector<float>& values) {
  std::string header = str("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(117, ' ');
  header += '\n';
  std::ofstream(path, std::ios::binary)
      << std::string_view("\x93NUMPY\x01\x00\x76\x00", 10) << header
      << std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

/// Writes arrays with 128 floats and a label per row.
void write_arrays(const std::string& folder, uint64_t rows, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(rows * 128), label(rows);
  for (float& value : x) value = float(rng.below(1000)) / 100;
  for (float& value : label) value = float(rng.below(2));
  write_npy(folder + "/x.npy", str("(", rows, ", 128)"), x);
  write_npy(folder + "/label.npy", str("(", rows, ",)"), label);
}

/// Returns the MB/s of copying `bytes` bytes between memory that is in no cache. Each thread copies
/// an equal share.
double copy_mb_s(uint64_t bytes, uint32_t threads) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const double begin = wall_seconds();
  const auto copy = [&](uint32_t part) {
    const uint64_t first = bytes * part / threads, end = bytes * (part + 1) / threads;
    std::memcpy(to.data() + first, from.data() + first, end - first);
  };
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < threads; ++t) others.emplace_back(copy, t);
  copy(0);
  for (std::thread& other : others) other.join();
  asm volatile("" ::"r"(to.data()) : "memory");
  return double(bytes) / 1e6 / (wall_seconds() - begin);
}

void bench_format(const std::string& name, const ScratchDir& folder, const char* text, int rounds,
                  std::vector<BenchResult>& results, uint32_t threads = 1) {
  const std::string path = folder.path() + "/job.toml";
  std::ofstream(path) << text;
  const Job job = must(chief::load_given_job(path, {})).loaded.job;
  const bool text_or_records = job.data.format != DataFormat::kNpy;  // arrays need no cache
  Repeated bytes, rows, kept;
  for (int round = 0; round < rounds; ++round) {
    const ReadTiming timing = must(time_reading(job, {.threads = threads}));
    bytes.add(double(timing.bytes) / 1e6 / timing.wall_s, copy_mb_s(timing.bytes, threads));
    rows.add(double(timing.records) / 1e6 / timing.wall_s, 0);
    if (!text_or_records) continue;
    const ReadTiming again = must(time_reading(job, {.kept = true}));
    kept.add(double(again.records) / 1e6 / again.wall_s, 0);
  }
  results.push_back(bytes.result(name, "MB/s", "memcpy of the same bytes"));
  results.push_back(rows.result(name + ", rows", "M rows/s", ""));
  if (text_or_records)
    results.push_back(kept.result(name + ", rows from the cache", "M rows/s", ""));
}

}  // namespace

std::vector<BenchResult> bench_input(const BenchOptions& options) {
  const int rounds = options.quick ? 1 : 5;
  const uint64_t rows = options.quick ? 4'000 : 200'000;
  const ScratchDir scratch;
  const std::string path = scratch.path() + "/data";
  std::vector<BenchResult> results;
  struct Text {
    const char* name;
    SynthFormat format;
    std::string job;
  };
  for (const Text& text : {Text{"libsvm", SynthFormat::kLibsvm, kLibsvm},
                           Text{"CSV", SynthFormat::kCsv, str(kCsv, kTables)},
                           Text{"criteo", SynthFormat::kTsv, str(kCriteo, kTables)}}) {
    must(data::synthesize({.rows = rows, .seed = options.seed, .format = text.format}, path));
    bench_format(text.name, scratch, text.job.c_str(), rounds, results);
  }
  write_examples(path, rows, options.seed);
  bench_format("TFRecord, Examples of 26 int64, 13 floats, label", scratch,
               str(kNamed, "data.format = \"tfrecord\"\n", kTables).c_str(), rounds, results);
  write_json(path, rows / 2, options.seed);
  bench_format("JSON lines", scratch, str(kNamed, "data.format = \"jsonl\"\n", kTables).c_str(),
               rounds, results);
  std::filesystem::remove(path);
  write_arrays(scratch.path(), rows * 2, options.seed);
  bench_format("npy, 128 floats and a label, shuffled", scratch, kNpy, rounds, results);
  bench_format("npy, the same on all cores, both sides", scratch, kNpy, rounds, results,
               allowed_cpus());
  return results;
}

}  // namespace downpour::tools
