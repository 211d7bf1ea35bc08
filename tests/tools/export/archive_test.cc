#include "tools/export/archive.h"

#include <cstring>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/data/bytes/file.h"
#include "shared/data/bytes/zip.h"
#include "tests/support/scratch_dir.h"
#include "tools/export/export_model.h"

namespace downpour::tools {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchDir;

const std::vector<ArraySpec> kArrays = {
    {.name = "tower/0/kernel", .shape = {2, 3}},
    {.name = "emb/table/keys", .type = ElementType::kUint64, .shape = {0}},
    {.name = "emb/table", .shape = {0, 4}},
    {.name = "click/offset", .shape = {1}},
};

/// Writes the numbers 0 to 6 as the elements of all arrays, in two parts that end inside arrays.
void write(const std::string& path) {
  PosixStorage storage;
  const auto format = path.ends_with(".npz") ? ArchiveFormat::kNpz : ArchiveFormat::kSafetensors;
  auto archive = create_archive(storage, path, format, kArrays, "job.toml", "seed = 1\n");
  if (!archive) FAIL(archive.error().what);
  float values[7];
  for (int i = 0; i < 7; ++i) values[i] = float(i);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values), sizeof(values));
  REQUIRE((*archive)->append(bytes.first(6)));
  REQUIRE((*archive)->append(bytes.subspan(6)));
  REQUIRE((*archive)->finish());
}

std::string read(const std::string& path) {
  PosixStorage storage;
  const Bytes bytes = storage.read_file(path, 1 << 20).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

float float_at(const std::string& bytes, size_t i) {
  float value = 0;
  std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
  return value;
}

}  // namespace

TEST_CASE("archive: an .npz has one member per array, and the text", "[export]") {
  const ScratchDir dir;
  write(dir / "m.npz");
  const std::string all = read(dir / "m.npz");
  const data::File file = data::File::open(dir / "m.npz").value();
  const std::vector<data::ZipMember> members = data::list_zip(file).value();
  REQUIRE(members.size() == 5);
  CHECK(members[0].name == "job.toml");
  CHECK(all.substr(members[0].data_offset, members[0].bytes) == "seed = 1\n");
  CHECK(members[1].name == "tower/0/kernel.npy");
  const std::string weights = all.substr(members[1].data_offset, members[1].bytes);
  CHECK_THAT(weights.substr(0, 128), Contains("'descr': '<f4'") && Contains("(2, 3)"));
  for (size_t i = 0; i < 6; ++i)
    CHECK(float_at(weights.substr(weights.size() - 6 * sizeof(float)), i) == float(i));
  CHECK_THAT(all.substr(members[2].data_offset, members[2].bytes),
             Contains("'<u8'") && Contains("(0,)"));
  CHECK_THAT(all.substr(members[3].data_offset, members[3].bytes), Contains("(0, 4)"));
  CHECK(float_at(all.substr(members[4].data_offset + members[4].bytes - sizeof(float)), 0) == 6);
}

TEST_CASE("archive: equal arrays give equal files", "[export]") {
  const ScratchDir dir;
  write(dir / "a.npz");
  write(dir / "b.npz");
  CHECK(read(dir / "a.npz") == read(dir / "b.npz"));
}

TEST_CASE("archive: a safetensors file names type, shape and place of each array", "[export]") {
  const ScratchDir dir;
  write(dir / "m.safetensors");
  const std::string all = read(dir / "m.safetensors");
  uint64_t size = 0;
  std::memcpy(&size, all.data(), sizeof(size));
  CHECK(size % 8 == 0);
  const auto header = nlohmann::json::parse(all.substr(8, size));
  CHECK(header["__metadata__"]["job.toml"] == "seed = 1\n");
  CHECK(header["tower/0/kernel"] ==
        nlohmann::json{{"dtype", "F32"}, {"shape", {2, 3}}, {"data_offsets", {0, 24}}});
  CHECK(header["emb/table/keys"]["dtype"] == "U64");
  CHECK(header["click/offset"]["data_offsets"] == nlohmann::json{24, 28});
  CHECK(all.size() == 8 + size + 28);
  CHECK(float_at(all.substr(8 + size), 6) == 6);
}

TEST_CASE("export: another format is an error that names the formats", "[export]") {
  const ScratchDir dir;
  PosixStorage storage;
  for (const char* const format : {"", "h5"}) {
    const auto exported =
        export_model(storage, {.run_dir = dir / "run", .path = dir / "m.h5", .format = format});
    REQUIRE_FALSE(exported);
    CHECK(exported.error().code == ErrorCode::kUsage);
    CHECK(exported.error().where == dir / "m.h5");
    CHECK_THAT(exported.error().hint, Contains(".npz") && Contains(".onnx"));
  }
}

}  // namespace downpour::tools
