// Arrays: several .npy files in a folder, one .npy file whose columns are fields, .npy arrays in
// sequence, .npz archives, and IDX images with their labels.
#include <cmath>
#include <optional>
#include <sys/stat.h>

#include "chief/runtime/weights_file.h"
#include "shared/data/bytes/open_bytes.h"
#include "shared/data/formats/numpy/array_stream.h"
#include "tests/fuzz/reading.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"
#include "tests/support/arrays.h"

namespace downpour::fuzz {
namespace {

constexpr std::string_view kArrayFields = R"toml(
[data.fields]
x = { path = "x", shape = [3] }
y = { path = "y", default = 0, transform = [{ op = "clip", min = 0, max = 9 }] }
k = { path = "y", type = "int64", transform = [{ op = "identity", buckets = 50, default = 1 }] }
)toml";
constexpr std::string_view kParts = R"toml(
data.format = "npy"
data.missing = ["nan"]
[data.fields]
x = { column = "0", shape = [2] }
y = { column = "2", default = 0 }
)toml";
constexpr std::string_view kImages = R"toml(
data.format = "mnist"
[data.fields]
image = { shape = [4], transform = ["log1p"] }
label = { type = "int64" }
)toml";

/// Returns two arrays, which usually have the same number of rows.
std::vector<std::string> two_arrays(Rng& rng) {
  static constexpr const char* kTypes[] = {"<f4", "<f8", "<f2", "<i1", "<u2",
                                           ">i4", "<i8", "<u8", "|b1"};
  const auto rows = uint32_t(rng.below(20));
  std::vector<std::string> arrays = {
      npy_seed(rng, one_in(rng, 3) ? kTypes[rng.below(9)] : "<f4", rows, 3),
      npy_seed(rng, one_in(rng, 3) ? kTypes[rng.below(9)] : "<i4",
               one_in(rng, 20) ? rows + 1 : rows, 1)};
  return arrays;
}
/// Mutates the array anywhere, or only in its first 128 bytes, which contain the header.
void mutate_array(std::string& bytes, const std::string& other, Rng& rng) {
  if (one_in(rng, 2)) return mutate(bytes, other, kNpyTokens, rng);
  std::string head = bytes.substr(0, 128);
  mutate(head, other, kNpyTokens, rng);
  bytes.replace(0, 128, head);
}
void mutate_one(std::vector<std::string>& arrays, Rng& rng) {
  if (one_in(rng, 30)) return;
  const size_t which = size_t(rng.below(arrays.size()));
  mutate_array(arrays[which], arrays[1 - which], rng);
}

Target npy_target(const std::string& folder) {
  const auto reading = std::make_shared<Reading>(str("data.format = \"npy\"\n", kArrayFields));
  const std::string path = folder + "/npy";
  ::mkdir(path.c_str(), 0700);
  return {.name = "npy",
          .make =
              [](Rng& rng) {
                std::vector<std::string> arrays = two_arrays(rng);
                mutate_one(arrays, rng);
                return Input{.files = std::move(arrays)};
              },
          .run =
              [=](const Input& input) {
                write_file(path + "/x.npy", input.files[0]);
                write_file(path + "/y.npy", input.files[1]);
                return reading->check(path, input.knobs);
              }};
}

Target parts_target(const std::string& folder) {
  return target_of_file(folder, "npy-parts", kParts, [](Rng& rng) {
    std::vector<std::string> arrays = two_arrays(rng);
    mutate_array(arrays[0], arrays[1], rng);
    return arrays[0];
  });
}

// ---- arrays in sequence, as a program writes them

/// Result of reading a file through rows_of(): number of rows, number of parsed rows, and the sum
/// of the hashes of all rows.
struct StreamRead {
  uint64_t rows = 0, taken = 0, hash = 0;
  std::optional<Error> error;
};
StreamRead read_stream(const data::ReadPlan& plan, const std::string& path, size_t window_bytes) {
  StreamRead out;
  const auto failed = [&](Error error) {
    out.error = std::move(error);
    return out;
  };
  auto file = data::File::open(path);
  if (!file) return failed(file.error());
  auto bytes = data::open_bytes(std::move(*file), 0);
  if (!bytes) return failed(bytes.error());
  data::Buffer buffer;
  std::vector<data::RecordRef> records;
  auto rows = data::rows_of(std::move(*bytes), plan, path, window_bytes, buffer, records);
  if (!rows) return failed(rows.error());
  std::vector<FloatColumn> floats;
  for (const FloatInput& input : plan.layout.floats)
    floats.push_back({.width = input.width, .values = std::vector<float>(input.width)});
  std::vector<data::KeyBuffer> keys;
  data::RecordParser& parser = *rows->records.parser;
  for (data::Window window;;) {
    const auto more = rows->records.source->next(window);
    if (!more) return failed(more.error());
    if (!*more) return out;
    for (const data::RecordRef& ref : *window.records) {
      const char* const begin = window.text + ref.begin;
      data::Columns columns{.floats = &floats, .keys = &keys};
      data::Fault fault;
      ++out.rows;
      out.hash += parser.hash(begin, begin + ref.size);
      if (!parser.parse(begin, begin + ref.size, window.offset_of(ref), columns, fault)) continue;
      ++out.taken;
      for (const FloatColumn& column : floats) {
        for (const float value : column.values)
          if (!std::isfinite(value)) return failed({ErrorCode::kBug, "a number is not finite"});
      }
    }
  }
}

std::string check_stream(const data::ReadPlan& plan, const std::string& path) {
  constexpr size_t kSmall = 64 << 10, kLarge = 1 << 20;
  const StreamRead read = read_stream(plan, path, kLarge), again = read_stream(plan, path, kLarge),
                   small = read_stream(plan, path, kSmall);
  if (read.error && read.error->code == ErrorCode::kBug) return read.error->what;
  if (read.rows != again.rows || read.taken != again.taken || read.hash != again.hash ||
      read.error.has_value() != again.error.has_value())
    return "read again it gives something else";
  if (!read.error && !small.error && (read.rows != small.rows || read.hash != small.hash))
    return "in other windows it has other rows";
  if (read.error.has_value() != small.error.has_value())
    return "in other windows it ends otherwise";
  return read.error ? check_error(*read.error, path) : "";
}

Target stream_target(const std::string& folder) {
  auto plan = std::make_shared<data::ReadPlan>();
  plan->data.format = DataFormat::kNpy;
  plan->data.fields = {{.name = "x", .shape = {3}}, {.name = "y", .fallback = "0"}};
  plan->layout.floats = {{"x", 3}, {"y", 1}};
  const std::string path = folder + "/back-to-back";
  return one_file(
      "npy-stream",
      [](Rng& rng) {
        std::string bytes;
        for (uint64_t chunks = 1 + rng.below(4); chunks > 0; --chunks) {
          std::vector<std::string> arrays = two_arrays(rng);
          if (one_in(rng, 3)) mutate_one(arrays, rng);
          bytes += arrays[0] + arrays[1];
        }
        if (one_in(rng, 3)) mutate(bytes, bytes, kNpyTokens, rng);
        return bytes;
      },
      [=](const std::string& text) {
        write_file(path, text);
        return check_stream(*plan, path);
      });
}

Target npz_target(const std::string& folder) {
  const std::string job = str("data.format = \"npz\"\n", kArrayFields);
  return target_of_file(folder, "npz", job, [](Rng& rng) {
    std::vector<std::string> arrays = two_arrays(rng);
    if (one_in(rng, 2)) mutate_one(arrays, rng);
    std::string bytes = testing::npz({{"x", arrays[0]}, {"y", arrays[1]}}, one_in(rng, 2));
    if (one_in(rng, 2)) {
      mutate(bytes, bytes, kNpyTokens, rng);
    } else if (one_in(rng, 2)) {  // mutates only the directory at the end
      const size_t at = bytes.size() - std::min<size_t>(bytes.size(), 140);
      std::string end = bytes.substr(at);
      mutate(end, bytes, kNpyTokens, rng);
      bytes.replace(at, std::string::npos, end);
    }
    return bytes;
  });
}

Target images_target(const std::string& folder) {
  const auto reading = std::make_shared<Reading>(kImages);
  const std::string images = folder + "/t-images-idx3-ubyte",
                    labels = folder + "/t-labels-idx1-ubyte";
  return {.name = "mnist",
          .make =
              [](Rng& rng) {
                const auto count = char(rng.below(20));
                std::string pixels = std::string("\0\0\x08\x03\0\0\0", 7) + count +
                                     std::string("\0\0\0\x02\0\0\0\x02", 8);
                std::string digits = std::string("\0\0\x08\x01\0\0\0", 7) + count;
                for (int i = 0; i < count; ++i) {
                  for (int p = 0; p < 4; ++p) pixels += char(rng.below(256));
                  digits += char(rng.below(10));
                }
                if (!one_in(rng, 30)) mutate(one_in(rng, 3) ? digits : pixels, "", {}, rng);
                if (one_in(rng, 4)) pixels = testing::gzipped(pixels);
                if (one_in(rng, 4)) digits = testing::zstd_compressed(digits);
                return Input{.files = {std::move(pixels), std::move(digits)}};
              },
          .run =
              [=](const Input& input) {
                write_file(images, input.files[0]);
                write_file(labels, input.files[1]);
                return reading->check(images, input.knobs);
              }};
}

// ---- files of weights

constexpr std::string_view kHeaderTokens[] = {"{",
                                              "}",
                                              "[",
                                              "]",
                                              ",",
                                              ":",
                                              "\"",
                                              "\"dtype\"",
                                              "\"F32\"",
                                              "\"U64\"",
                                              "\"BF16\"",
                                              "\"shape\"",
                                              "\"data_offsets\"",
                                              "\"__metadata__\"",
                                              "null",
                                              "18446744073709551615",
                                              "-1",
                                              "4294967296",
                                              "0"};

std::string safetensors_seed(Rng& rng) {
  const uint64_t rows = rng.below(6);
  std::string header =
      str(R"({"__metadata__":{"job.toml":"seed = 1"},"w":{"dtype":"F32","shape":[)", rows,
          R"(,2],"data_offsets":[0,)", rows * 8, R"(]},"w/keys":{"dtype":"U64","shape":[)", rows,
          R"(],"data_offsets":[)", rows * 8, ",", rows * 16, "]}}");
  if (!one_in(rng, 3)) mutate(header, "", kHeaderTokens, rng);
  uint64_t size = header.size();
  if (one_in(rng, 10)) size = rng.next() >> rng.below(64);
  std::string file(reinterpret_cast<const char*>(&size), sizeof(size));
  return file + header + std::string(rows * 16, '\1');
}

std::string check_weights(const std::string& path, const std::string& bytes) {
  write_file(path, bytes);
  const auto file = chief::WeightsFile::open(path);
  if (!file) return check_error(file.error(), path);
  for (const auto& [name, entry] : file->arrays()) {
    const auto floats = file->floats(name);
    if (floats && floats->size() != entry.elements()) return "another number of floats";
    if (!floats && floats.error().what.empty()) return "an error without text";
    const auto keys = file->keys(name);
    if (keys && keys->size() != entry.elements()) return "another number of keys";
  }
  return "";
}

Target weights_target(const std::string& folder) {
  return {.name = "weights",
          .make =
              [](Rng& rng) {
                if (one_in(rng, 2)) return Input{.knobs = 1, .files = {safetensors_seed(rng)}};
                std::string bytes = testing::npz(
                    {{"w", npy_seed(rng, "<f4", 5, 3)}, {"w/keys", npy_seed(rng, "<i8", 5, 1)}},
                    one_in(rng, 2));
                if (!one_in(rng, 10)) mutate(bytes, "", kNpyTokens, rng);
                return Input{.knobs = 0, .files = {std::move(bytes)}};
              },
          .run =
              [=](const Input& input) {
                const char* const name = input.knobs == 1 ? "/w.safetensors" : "/w.npz";
                return check_weights(folder + name, input.files[0]);
              }};
}

}  // namespace

void add_array_targets(const std::string& folder, std::vector<Target>& out) {
  out.push_back(npy_target(folder));
  out.push_back(parts_target(folder));
  out.push_back(stream_target(folder));
  out.push_back(npz_target(folder));
  out.push_back(images_target(folder));
  out.push_back(weights_target(folder));
}

}  // namespace downpour::fuzz
