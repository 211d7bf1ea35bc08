// Bombs: small files that expand to large ones. An input takes some hundred milliseconds, so a run
// reads only a few of them.
#include <sys/stat.h>
#include <unistd.h>

#include "shared/data/formats/example/tfrecord_writer.h"
#include "shared/data/formats/sniff.h"
#include "shared/data/values/vocabulary.h"
#include "tests/fuzz/reading.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"
#include "tests/support/arrays.h"

namespace downpour::fuzz {
namespace {

using namespace std::string_view_literals;

std::string repeated(std::string_view piece, size_t bytes) {
  std::string out;
  out.reserve(bytes + piece.size());
  while (out.size() < bytes) out += piece;
  return out;
}

/// A target that reads a compressed file of one repeated piece.
struct Bomb {
  std::string name;
  std::string job;  // keys of the job; if empty, the file is a vocabulary
  std::vector<std::string_view> pieces;
};

Target target_of(const std::string& folder, const Bomb& bomb) {
  const auto reading = bomb.job.empty() ? nullptr : std::make_shared<Reading>(bomb.job);
  const std::string path = folder + "/" + bomb.name;
  return {.name = bomb.name,
          .make =
              [pieces = bomb.pieces](Rng& rng) {
                // From well below the size limit of a decompressed file to well above it.
                const std::string text =
                    repeated(one_of(std::span<const std::string_view>(pieces), rng),
                             size_t(1 + rng.below(96)) * kMiB);
                switch (rng.below(3)) {
                  case 0:
                    return Input{.files = {testing::gzipped(text)}};
                  case 1:
                    return Input{.files = {testing::zstd_compressed(text)}};
                  default:
                    return Input{.files = {testing::zlib_compressed(text)}};
                }
              },
          .run =
              [=](const Input& input) {
                write_file(path, input.files[0]);
                if (reading != nullptr) return reading->check_once(path, (input.knobs & 1) != 0);
                const auto read = data::Vocabulary::load(path);
                return read ? "" : check_error(read.error(), path);
              },
          .cpu_seconds_max = 30};
}

/// Tensors that declare a shape of many elements and contain one value, which fills all of them.
Target tensor_target(const std::string& folder) {
  const auto reading = std::make_shared<Reading>(R"(
data.format = "tfrecord"
data.fields = { keys = { type = "int64", shape = [-1], encoding = "tensor" } }
)"sv);
  const std::string path = folder + "/bomb-tensor";
  return {.name = "bomb-tensor",
          .make =
              [](Rng& rng) {
                std::string out;
                for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
                  const int64_t dims[] = {int64_t(1) << rng.below(63)};
                  // int64_val (field 10) with a single element, instead of tensor_content.
                  const std::string tensor =
                      data::serialized_tensor(data::TensorType::kInt64, dims, "");
                  const std::string whole = tensor + "\x52\x01\x07";
                  const std::string_view texts[] = {whole};
                  data::ExampleBuilder builder;
                  builder.add("keys", texts);
                  data::append_frame(out, builder.bytes());
                }
                return Input{.files = {std::move(out)}};
              },
          .run =
              [=](const Input& input) {
                write_file(path, input.files[0]);
                return reading->check_once(path, false);
              },
          .cpu_seconds_max = 30};
}

/// One long JSON line. Two fields of the job read the same member.
Target json_line_target(const std::string& folder) {
  const auto reading = std::make_shared<Reading>(R"(
data.format = "jsonl"
data.fields.y = { default = 0 }
data.fields.a = { path = "v", type = "int64", shape = [-1], default = "" }
data.fields.b = { path = "v", shape = [3], default = 0 }
)"sv);
  const std::string path = folder + "/bomb-json-line";
  return {.name = "bomb-json-line",
          .make =
              [](Rng& rng) {
                static constexpr std::string_view kOpenings[] = {
                    "{\"y\": 1, \"v\": [", "{\"v\": ", "{\"v\": [1, 2, [", "{\"u\": [", "[", "{"};
                static constexpr std::string_view kPieces[] = {
                    "1,",    "[],",     "[1],",     "[",       "{},",
                    "\"\",", "{\"v\":", "\"v\":1,", "\\u0000", " "};
                std::string text(one_of(std::span<const std::string_view>(kOpenings), rng));
                const auto piece = one_of(std::span<const std::string_view>(kPieces), rng);
                const size_t bytes = rng.below(17'000'000);
                while (text.size() < bytes) text += piece;
                return Input{.files = {text + (one_in(rng, 2) ? "1]}\n" : "\n")}};
              },
          .run =
              [=](const Input& input) {
                write_file(path, input.files[0]);
                const auto facts = data::sniff(path);
                const std::string wrong = facts ? "" : check_error(facts.error(), path);
                return wrong.empty() ? reading->check_once(path, (input.knobs & 1) != 0) : wrong;
              },
          .cpu_seconds_max = 30};
}

struct SparseKind {
  DataFormat format;
  std::string (*seed)(Rng&);
};
constexpr SparseKind kSparseKinds[] = {
    {DataFormat::kTsv, [](Rng& rng) { return table_seed(rng, '\t', true); }},
    {DataFormat::kLibsvm, libsvm_seed},
    {DataFormat::kJsonl, jsonl_seed},
    {DataFormat::kTfrecord, example_seed},
    {DataFormat::kNpy, [](Rng& rng) { return npy_seed(rng, "<f4", 3, 2); }}};

/// Does with a file what a job does before it reads records, once for each format.
std::string check_planned(const std::string& path, uint64_t shard_bytes) {
  for (const SparseKind& kind : kSparseKinds) {
    DataSpec data{.source = {.paths = {path}}, .format = kind.format};
    const auto length = data::mean_record_bytes(data, path);
    std::string wrong = length ? "" : check_error(length.error(), path);
    auto files = data::list_files(data, data.source, "/");
    if (!files) {
      wrong += check_error(files.error(), path);
    } else if (const auto cut = data::find_cuts(data, data.source, shard_bytes, *files); !cut) {
      const bool too_many = cut.error().where == "data.shard_records";
      wrong += too_many ? "" : check_error(cut.error(), path);
    }
    if (!wrong.empty()) return wrong;
  }
  const auto facts = data::sniff(path);
  return facts ? "" : check_error(facts.error(), path);
}

/// Files with a hole and a length of up to 8 TiB.
Target sparse_target(const std::string& folder) {
  const std::string path = folder + "/sparse";
  return {.name = "sparse",
          .make =
              [](Rng& rng) {
                return Input{.files = {kSparseKinds[rng.below(std::size(kSparseKinds))].seed(rng)}};
              },
          .run = [=](const Input& input) -> std::string {
            write_file(path, input.files[0]);
            const uint64_t bytes = uint64_t{1} << (20 + input.knobs % 24);
            if (::truncate(path.c_str(), off_t(bytes)) != 0) return "";  // not supported here
            return check_planned(path, (input.knobs >> 8) % kMiB + 1);
          },
          .cpu_seconds_max = 30};
}

}  // namespace

void add_bomb_targets(const std::string& folder, std::vector<Target>& out) {
  const std::string table =
      "\ndata.columns = [\"label\", \"t\"]\ndata.fields = { label = { default = 0 }, t = { type = "
      "\"string\", shape = [-1] } }\n";
  const std::vector<Bomb> bombs = {
      {"bomb-libsvm",
       "data.format = \"libsvm\"",
       {"\n", "1\n", "1 ", "0 1:1\n", " 1:1", "#", "\0"sv, "1 1:1 2:1 3:1 4:1 5:1 6:1\n"}},
      {"bomb-csv",
       "data.format = \"csv\"" + table,
       {"\n", "1,\n", ",", "\"", "1,a b c d e f g h\n", "1,\"\"\"\n", "a ", "\0"sv}},
      {"bomb-jsonl",
       "data.format = \"jsonl\"\ndata.fields = { x = { default = 0 }, t = { type = \"string\", "
       "shape = [-1], default = \"\" } }",
       {"{}\n", "[", "{\"a\":", "{\"t\":[\"\",\"\",\"\",\"\",\"\",\"\"]}\n", "\n", "\"", "[1,"}},
      {"bomb-tfrecord",
       "data.format = \"tfrecord\"\ndata.fields = { x = { type = \"int64\", shape = [-1], default "
       "= \"\" } }",
       {"\0"sv, "\xff"sv, "\x08\0\0\0\0\0\0\0"sv}},
      {"bomb-vocabulary", "", {"\n", "a\n", "\r\n", "abc", "\0\n"sv}},
  };
  for (const Bomb& bomb : bombs) out.push_back(target_of(folder, bomb));
  out.push_back(tensor_target(folder));
  out.push_back(json_line_target(folder));
  out.push_back(sparse_target(folder));
}

}  // namespace downpour::fuzz
