// Line-based formats, plain and compressed.
#include "tests/fuzz/reading.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"
#include "tests/support/compressed.h"

namespace downpour::fuzz {
namespace {

constexpr std::string_view kLibsvm = R"toml(
data.format = "libsvm"
)toml";
constexpr std::string_view kLibsvmFiltered = R"toml(
data.format = "libsvm"
data.filter = "label >= 0 && (`7` > 0.5 || !missing(`7`))"
[data.fields]
label    = {}
features = { type = "int64", shape = [-1], transform = [
  { op = "truncate", length = 5 }, { op = "dropout", rate = 0.3 }] }
"7"      = { column = "7" }
)toml";
constexpr std::string_view kLibffm = R"toml(
data.format = "libffm"
[data.fields]
label    = {}
features = { type = "int64", shape = [-1] }
three    = { column = "3", type = "int64", shape = [-1] }
)toml";
/// Most transforms of docs/examples/transforms.toml, and crop.
constexpr std::string_view kFields = R"toml(
data.filter = "color != 'blue' || age > 20 && !missing(age)"
[data.fields]
label  = {}
age    = { default = 40, transform = [
  { op = "min_max", min = 0, max = 100 }, { op = "quantile", boundaries = [0, 1] },
  { op = "clip", min = -5, max = 5 }] }
noisy  = { column = "age", default = 1, transform = [
  { op = "clip", min = 0 }, "log1p", { op = "noise", stddev = 0.5 }] }
band   = { column = "age", default = 40, transform = [
  { op = "bucketize", boundaries = [18, 35, 65] }] }
whole  = { column = "age", type = "int64", default = 0, transform = [
  { op = "identity", buckets = 10, default = 0 }] }
color  = { type = "string", default = "", transform = [
  { op = "vocabulary", words = ["red", "green", "blue"], unknown = "hash", buckets = 8 }] }
title  = { type = "string", transform = [
  { op = "tokens", separators = " ,.", lower = true, ngrams = 2 },
  { op = "hash", buckets = 65536 }, { op = "truncate", length = 40 }] }
list   = { shape = [-1], transform = [{ op = "pool", how = "mean" }, "log1p"] }
last   = { column = "list", shape = [-1], transform = [{ op = "pad", length = 3, keep = "last" }] }
some   = { column = "list", shape = [-1], transform = [
  { op = "crop", length = 2 }, { op = "pad", length = 2 }] }
taste  = { transform = [{ op = "cross", fields = ["color", "band"], buckets = 1000 }] }
)toml";
constexpr std::string_view kJsonl = R"toml(
data.format = "jsonl"
data.missing = ["nan", "NA"]
[data.fields]
id    = { type = "int64" }
x     = { default = 0 }
age   = { path = "user.age", default = 3, transform = [
  { op = "standardize", mean = 2, scale = 3 }] }
name  = { path = "user.name", type = "string", default = "" }
tags  = { type = "string", shape = [-1], default = "" }
vec   = { shape = [3] }
list  = { shape = [-1], transform = [{ op = "pool", how = "sum" }] }
)toml";

using Make = std::string (*)(Rng&);
using Compress = std::string (*)(const std::string&);

struct Format {
  std::string name;
  std::string job;
  std::function<std::string(Rng&)> seed;
  Dictionary dictionary;
};

std::string mutated(const Format& format, Rng& rng) {
  std::string bytes = format.seed(rng);
  if (!one_in(rng, 50))
    mutate(bytes, format.seed(rng), one_in(rng, 3) ? kNumberTokens : format.dictionary, rng);
  return bytes;
}

Target target_of(const std::string& folder, const std::string& name, const Format& format,
                 Compress compress) {
  return target_of_file(folder, name, format.job, [=](Rng& rng) {
    std::string bytes = mutated(format, rng);
    if (compress == nullptr) return bytes;
    // Some files consist of two compressed pieces; some are mutated after compression.
    const size_t half = one_in(rng, 4) ? bytes.size() / 2 : 0;
    std::string packed = half > 0 ? compress(bytes.substr(0, half)) : "";
    packed += compress(bytes.substr(half));
    if (one_in(rng, 3)) mutate(packed, "", {}, rng);
    return packed;
  });
}

}  // namespace

void add_text_targets(const std::string& folder, std::vector<Target>& out) {
  const auto table = [](char delimiter, bool header, bool breaks = false) {
    return [=](Rng& rng) { return table_seed(rng, delimiter, header, breaks); };
  };
  const std::string fields(kFields);
  const std::string columns =
      "data.columns = [\"label\", \"age\", \"color\", \"title\", \"list\"]\n";
  const std::vector<Format> formats = {
      {"libsvm", std::string(kLibsvm), libsvm_seed, kLineTokens},
      {"libsvm-filtered", std::string(kLibsvmFiltered), libsvm_seed, kLineTokens},
      {"libffm", std::string(kLibffm), libffm_seed, kLineTokens},
      {"csv", "data.format = \"csv\"\ndata.header = true\n" + fields, table(',', true),
       kLineTokens},
      {"csv-columns",
       "data.format = \"csv\"\ndata.trim = true\ndata.skip_lines = 1\ndata.missing = [\"NA\", "
       "\"?\"]\n" +
           columns + fields,
       table(',', false), kLineTokens},
      {"csv-quoted",
       "data.format = \"csv\"\ndata.header = true\ndata.quoted_newlines = true\n" + fields,
       table(',', true, true), kLineTokens},
      {"tsv", "data.format = \"tsv\"\n" + columns + fields, table('\t', false), kLineTokens},
      {"criteo", "data.format = \"criteo\"\n", criteo_seed, kLineTokens},
      {"jsonl", std::string(kJsonl), jsonl_seed, kJsonTokens},
  };
  for (const Format& format : formats)
    out.push_back(target_of(folder, format.name, format, nullptr));
  const Format &libsvm = formats[0], &csv = formats[3];
  out.push_back(target_of(folder, "libsvm-gzip", libsvm,
                          [](const std::string& text) { return testing::gzipped(text); }));
  out.push_back(target_of(folder, "libsvm-zlib", libsvm, testing::zlib_compressed));
  out.push_back(target_of(folder, "csv-zstd", csv, testing::zstd_compressed));
}

}  // namespace downpour::fuzz
