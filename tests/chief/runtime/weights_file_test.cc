// Files with the initial variables of a model: both formats, and damaged or hostile files.
#include "chief/runtime/weights_file.h"

#include <catch2/catch.hpp>

#include "chief/runtime/start_weights.h"
#include "shared/base/str.h"
#include "tests/support/arrays.h"
#include "tests/support/scratch_dir.h"

namespace downpour::chief {
namespace {

using Catch::Contains;
using testing::bytes_of;
using testing::little_endian;
using testing::npy;
using testing::npz;
using testing::ScratchDir;
using Arrays = std::vector<std::pair<std::string, std::string>>;

std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

/// Returns the entry of an array in the header of a safetensors file.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  uint64_t begin, uint64_t end) {
  return str('"', name, R"(":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":[)",
             begin, ",", end, "]}");
}

std::string six_floats() { return bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}); }

void check_arrays(const std::string& path) {
  CAPTURE(path);
  const auto file = WeightsFile::open(path);
  INFO((file ? "" : file.error().what));
  REQUIRE(file);
  REQUIRE(file->arrays().size() == 2);
  CHECK(file->arrays().at("w").shape == std::vector<uint64_t>{3, 2});
  CHECK(file->floats("w").value() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(file->keys("w/keys").value() == std::vector<uint64_t>{7, 8, 1ULL << 40});
  CHECK(file->floats("w/keys").value()[0] == 7);
  CHECK_THAT(file->keys("w").error().what, Contains("the keys `w` are float32, not integers"));
}

TEST_CASE("the arrays of .npz files, deflated or not, and of safetensors are the same", "[chief]") {
  const ScratchDir dir;
  const std::string keys = bytes_of(std::vector<int64_t>{7, 8, 1LL << 40});
  const Arrays arrays = {{"w", npy("'<f4'", "(3, 2)", six_floats())},
                         {"w/keys", npy("'<i8'", "(3,)", keys)}};
  check_arrays(dir.write("stored.npz", npz(arrays)));
  check_arrays(dir.write("deflated.npz", npz(arrays, true)));
  const std::string tensors =
      dir.write("t.safetensors", safetensors(str(R"({"__metadata__":{"job.toml":"seed = 3"},)",
                                                 entry("w", "F32", "[3,2]", 0, 24), ",",
                                                 entry("w/keys", "I64", "[3]", 24, 48), "}"),
                                             six_floats() + keys));
  check_arrays(tensors);
  CHECK(WeightsFile::open(tensors).value().job() == "seed = 3");
}

TEST_CASE("a job that NumPy has saved again is read", "[chief]") {
  const ScratchDir dir;
  const std::string w = npy("'<f4'", "(3, 2)", six_floats());
  for (const bool deflated : {false, true}) {
    const std::string path = dir.write(
        "again.npz", npz({{"job.toml", npy("'|S11'", "()", "seed = 3\n#x")}, {"w", w}}, deflated));
    const auto file = WeightsFile::open(path);
    REQUIRE(file);
    CHECK(file->job() == "seed = 3\n#x");
    CHECK(file->arrays().size() == 1);
  }
  const auto unicode = WeightsFile::open(
      dir.write("u.npz", npz({{"job.toml", npy("'<U1'", "()", "x   ")}, {"w", w}})));
  CHECK_THAT(unicode.error().what, Contains("the array `job.toml` is no text of bytes"));
}

TEST_CASE("arrays of weights in every width and byte order become floats", "[chief]") {
  const ScratchDir dir;
  const std::vector<std::pair<const char*, std::string>> types = {
      {"'<f2'", std::string("\x00\x3e\x00\xc0", 4)},
      {"'>f4'", bytes_of(std::vector<float>{1.5F, -2}, true)},
      {"'<f8'", bytes_of(std::vector<double>{1.5, -2})}};
  for (const auto& [type, bytes] : types) {
    CAPTURE(type);
    const auto file = WeightsFile::open(dir.write("a.npz", npz({{"a", npy(type, "(2,)", bytes)}})));
    REQUIRE(file);
    CHECK(file->floats("a").value() == std::vector<float>{1.5F, -2});
  }
}

TEST_CASE(
    "weights that are not finite, negative keys and other types are errors that name the "
    "array",
    "[chief]") {
  const ScratchDir dir;
  const auto array = [&](const std::string& type, const std::string& bytes) {
    return WeightsFile::open(dir.write("a.npz", npz({{"a", npy(type, "(1,)", bytes)}})));
  };
  CHECK_THAT(array("'<f8'", bytes_of(std::vector<double>{1e300})).value().floats("a").error().what,
             Contains("`a`") && Contains("not finite"));
  CHECK_THAT(array("'<i4'", bytes_of(std::vector<int32_t>{-1})).value().keys("a").error().what,
             Contains("`a`") && Contains("negative"));
  CHECK(array("'<U1'", "a\0\0\0").error().code == ErrorCode::kUnsupported);
  const auto half = WeightsFile::open(
      dir.write("b.safetensors", safetensors("{" + entry("b", "BF16", "[1]", 0, 2) + "}", "ab")));
  CHECK(half.error().code == ErrorCode::kUnsupported);
  CHECK_THAT(half.error().what, Contains("`b`") && Contains("BF16"));
}

TEST_CASE("every beginning of a weights file is an error, and none reads beyond its end",
          "[chief]") {
  const ScratchDir dir;
  const Arrays arrays = {{"w", npy("'<f4'", "(3, 2)", six_floats())}};
  const std::vector<std::pair<std::string, std::string>> files = {
      {"s.npz", npz(arrays)},
      {"d.npz", npz(arrays, true)},
      {"t.safetensors", safetensors("{" + entry("w", "F32", "[3,2]", 0, 24) + "}", six_floats())}};
  for (const auto& [name, bytes] : files) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(name, size);
      const auto file = WeightsFile::open(dir.write(name, bytes.substr(0, size)));
      REQUIRE(!file);
      CHECK_THAT(file.error().where, Contains(name));
    }
  }
}

TEST_CASE("a changed bit in an array of an archive is an error", "[chief]") {
  const ScratchDir dir;
  std::string bytes = npz({{"w", npy("'<f4'", "(3, 2)", six_floats())}});
  const size_t at = bytes.find(six_floats());
  REQUIRE(at != std::string::npos);
  CHECK(WeightsFile::open(dir.write("w.npz", bytes)).value().floats("w"));
  bytes[at] = char(bytes[at] ^ 1);
  const auto damaged = WeightsFile::open(dir.write("w.npz", bytes)).value().floats("w");
  REQUIRE(!damaged);
  CHECK_THAT(damaged.error().what, Contains("its member w.npy is damaged"));
}

TEST_CASE("a header of safetensors that lies about sizes, shapes or places is an error",
          "[chief]") {
  const ScratchDir dir;
  const auto what = [&](const std::string& bytes) {
    const auto file = WeightsFile::open(dir.write("h.safetensors", bytes));
    REQUIRE(!file);
    CHECK(file.error().code == ErrorCode::kBadData);
    CHECK_THAT(file.error().where, Contains("h.safetensors"));
    return file.error().what;
  };
  for (const uint64_t size : {uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}})
    CHECK_THAT(what(little_endian(size, 8) + "{}"), Contains("longer than the file"));
  for (const char* header : {"", "[1]", "{\"w\":", "\xff"})
    CHECK_THAT(what(safetensors(header, "")), Contains("not a JSON object"));
  CHECK_THAT(what(safetensors(std::string(100'000, '['), "")), Contains("not a JSON object"));
  for (const char* header :
       {R"({"w":1})", R"({"w":{}})", R"({"w":{"dtype":1,"shape":[],"data_offsets":[0,4]}})",
        R"({"w":{"dtype":"F32","shape":"2","data_offsets":[0,4]}})"})
    CHECK_THAT(what(safetensors(header, "abcd")), Contains("the entry `w` has no dtype"));
  const auto place = [&](const char* shape, uint64_t begin, uint64_t end) {
    CAPTURE(shape, begin, end);
    CHECK_THAT(what(safetensors("{" + entry("w", "F32", shape, begin, end) + "}", six_floats())),
               Contains("the place of the array `w` does not fit its shape"));
  };
  place("[3,2]", 0, 20);
  place("[3,3]", 0, 24);
  place("[3,2]", 4, 28);
  place("[3,2]", 24, 0);
  place("[-1]", 0, 24);
  place("[4611686018427387904,4]", 0, 0);  // 2^64 elements
  place("[9223372036854775808,2,0]", 0, 0);
  place("[4611686018427387904]", 0, 0);  // 2^64 bytes
}

TEST_CASE("an archive that promises more than it has is an error", "[chief]") {
  const ScratchDir dir;
  const auto what = [&](const std::string& bytes) {
    const auto file = WeightsFile::open(dir.write("h.npz", bytes));
    if (!file) return file.error().what;
    const auto floats = file->floats("w");
    REQUIRE(!floats);
    return floats.error().what;
  };
  for (const bool deflate : {false, true}) {
    CAPTURE(deflate);
    CHECK_THAT(what(npz({{"w", npy("'<f4'", "(1000000000000,)", six_floats())}}, deflate)),
               Contains("declares 1000000000000 rows"));
    CHECK_THAT(what(npz({{"w", "no header"}}, deflate)), !Contains("w.npy.npy"));
    const std::string one = npy("'<f4'", "(6,)", six_floats());
    CHECK_THAT(what(npz({{"w", one}, {"w", one}}, deflate)),
               Contains("two members with the name w.npy"));
  }
}

/// A model with a dense variable of 2 x 2 and an embedding of width 2.
std::vector<TableSpec> tables() {
  TableSpec dense{.name = "kernel", .kind = TableKind::kDense};
  dense.table_variables = {{.name = "kernel", .shape = {2, 2}}};
  TableSpec rows{.name = "emb", .kind = TableKind::kEmbedding};
  rows.table_variables = {{.name = "emb", .dim = 2}};
  return {dense, rows};
}

TEST_CASE("arrays with other names or shapes than the variables are errors that say which",
          "[chief]") {
  const ScratchDir dir;
  const std::vector<TableSpec> specs = tables();  // what read() returns refers to it
  const auto read = [&](const Arrays& arrays) {
    return StartWeights::read(dir.write("w.npz", npz(arrays)), Job{}, specs, 4);
  };
  const std::string four = bytes_of(std::vector<float>{1, 2, 3, 4});
  const auto kernel = std::pair("kernel", npy("'<f4'", "(2, 2)", four));
  const auto keys = [](std::vector<uint64_t> all) {
    return std::pair("emb/keys", npy("'<u8'", str("(", all.size(), ",)"), bytes_of(all)));
  };
  const auto rows = std::pair("emb", npy("'<f4'", "(2, 2)", four));

  const auto whole = read({kernel, rows, keys({5, 9})});
  INFO((whole ? "" : whole.error().what));
  REQUIRE(whole);
  CHECK(whole->rows() == 2);
  CHECK(whole->note().empty());
  CHECK_THAT(read({kernel}).value().note(), Contains("with initial values: emb"));

  const Error shape = read({{"kernel", npy("'<f4'", "(4,)", four)}}).error();
  CHECK(shape.what == "the array `kernel` is 4 in the file, but the variable is 2 x 2");
  CHECK(shape.id == "DP-2110");
  const Error name = read({{"kernal", npy("'<f4'", "(2, 2)", four)}}).error();
  CHECK(name.what == "the file has the array `kernal`, but the model has no such variable");
  CHECK_THAT(name.hint, Contains("did you mean `kernel`?"));
  CHECK_THAT(read({rows}).error().what, Contains("no vector `emb/keys`"));
  CHECK_THAT(read({keys({5, 9})}).error().what, Contains("but no `emb`"));
  CHECK_THAT(read({rows, keys({5, 9, 11})}).error().what, Contains("the variable is 3 x 2"));
  CHECK(read({rows, keys({5, 5})}).error().what == "the key 5 occurs twice in `emb/keys`");
}

}  // namespace
}  // namespace downpour::chief
