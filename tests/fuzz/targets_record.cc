// TFRecord: Examples and tensors, plain, compressed, and with an index.
#include <cstring>

#include "tests/fuzz/reading.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"
#include "tests/support/compressed.h"

namespace downpour::fuzz {
namespace {

constexpr std::string_view kExamples = R"toml(
data.format = "tfrecord"
data.filter = "id != 7 && (x > -100 || missing(x))"
[data.fields]
id     = { type = "int64" }
x      = { default = 0, transform = [{ op = "clip", min = -2, max = 2 }] }
words  = { type = "string", shape = [-1], default = "" }
vec    = { shape = [4] }
pooled = { feature = "vec", shape = [-1], transform = [{ op = "pool", how = "max" }] }
tensor = { shape = [3], encoding = "tensor" }
keys   = { type = "int64", shape = [-1], encoding = "tensor", default = "" }
)toml";
/// Reads every field and has no filter.
constexpr std::string_view kPlainExamples = R"toml(
data.format = "tfrecord"
[data.fields]
id     = { type = "int64", default = 0 }
words  = { type = "string", shape = [-1], default = "", transform = [
  { op = "truncate", length = 3 }] }
tensor = { shape = [3], encoding = "tensor" }
keys   = { type = "int64", shape = [-1], encoding = "tensor" }
)toml";
constexpr std::string_view kTensors = R"toml(
data.format = "tfrecord"
data.record = "tensor"
[data.fields]
label = { column = "2" }
x     = { column = "0", shape = [2] }
)toml";

using Seed = std::string (*)(Rng&);
using Compress = std::string (*)(const std::string&);

/// Returns a mutated file. Most files get correct checksums, so that the code after the check is
/// reached. The others test the check itself.
std::string mutated(Seed seed, Rng& rng) {
  std::string bytes = seed(rng);
  if (one_in(rng, 50)) return bytes;
  mutate(bytes, seed(rng), kProtoTokens, rng);
  if (!one_in(rng, 4)) mend_frames(bytes, rng);
  if (one_in(rng, 6)) mutate(bytes, "", {}, rng);
  return bytes;
}

Target target_of(const std::string& folder, const std::string& name, std::string_view job,
                 Seed seed, Compress compress) {
  return target_of_file(folder, name, job, [=](Rng& rng) {
    std::string bytes = mutated(seed, rng);
    if (compress == nullptr) return bytes;
    bytes = compress(bytes);
    if (one_in(rng, 3)) mutate(bytes, "", {}, rng);
    return bytes;
  });
}

/// Returns the index of the frames up to the first invalid length: one line "offset size" per
/// frame.
std::string index_of(const std::string& bytes) {
  std::string index;
  for (size_t at = 0; at + 12 <= bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    if (length > bytes.size()) break;
    index += str(at, " ", length + 16, "\n");
    at += length + 16;
  }
  return index;
}

/// A file and the index that says where it may be cut.
Target index_target(const std::string& folder) {
  const auto reading = std::make_shared<Reading>(kPlainExamples);
  const std::string path = folder + "/indexed.tfrecord";
  return {.name = "example-index",
          .make =
              [](Rng& rng) {
                std::string bytes = one_in(rng, 3) ? mutated(example_seed, rng) : example_seed(rng);
                std::string index = index_of(bytes);
                if (!one_in(rng, 10)) mutate(index, "", kNumberTokens, rng);
                return Input{.files = {std::move(bytes), std::move(index)}};
              },
          .run =
              [=](const Input& input) {
                write_file(path, input.files[0]);
                write_file(path + ".idx", input.files[1]);
                return reading->check(path, input.knobs);
              }};
}

}  // namespace

void add_record_targets(const std::string& folder, std::vector<Target>& out) {
  out.push_back(target_of(folder, "example", kPlainExamples, example_seed, nullptr));
  out.push_back(target_of(folder, "example-filtered", kExamples, example_seed, nullptr));
  out.push_back(target_of(folder, "tensor", kTensors, tensor_seed, nullptr));
  out.push_back(index_target(folder));
  out.push_back(target_of(folder, "example-gzip", kPlainExamples, example_seed,
                          [](const std::string& text) { return testing::gzipped(text); }));
  out.push_back(
      target_of(folder, "example-zlib", kExamples, example_seed, testing::zlib_compressed));
  out.push_back(target_of(folder, "tensor-zstd", kTensors, tensor_seed, testing::zstd_compressed));
}

}  // namespace downpour::fuzz
