// shard writes every record once, however it splits, merges, converts, shuffles and compresses.
#include "tools/data/shard.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "shared/base/hash.h"
#include "shared/base/rng.h"
#include "shared/data/reading/dataset.h"
#include "tests/shared/data/support.h"
#include "tests/tools/data/support.h"

namespace downpour::tools {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

ShardSummary made(const DataSet& set, const ShardRequest& request) {
  auto summary = shard(set, request);
  INFO((summary ? "" : summary.error().what + " at " + summary.error().where));
  REQUIRE(summary);
  return std::move(*summary);
}
Error refused(const DataSet& set, const ShardRequest& request) {
  const auto summary = shard(set, request);
  REQUIRE_FALSE(summary);
  return summary.error();
}

std::vector<std::string> paths_of(const ShardSummary& summary) {
  std::vector<std::string> paths;
  for (const ShardSummary::File& file : summary.files) paths.push_back(file.path);
  return paths;
}

/// Returns the sum of the hashes of all records as `head` shows them. It does not depend on their
/// order.
uint64_t multiset_of(const DataSet& set) {
  uint64_t sum = 0;
  for (const Json& record : head_of(set, UINT64_MAX))
    sum += hash_string(nlohmann::json(record).dump());  // fields sorted by name
  return sum;
}

uint64_t lines_of(const std::string& text) {
  return uint64_t(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE(
    "shards differ by at most one record, and together are the input, byte for byte and in order",
    "[tools][shard]") {
  const ScratchDir dir;
  const std::string lines = json_lines(rows_of(1003));
  const std::string frames = tfrecords(rows_of(1003));
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"a.jsonl", lines}, {"a.tfrecord", frames}}) {
    const DataSet set = open_set({dir.write(name, text)});
    for (const uint32_t shards : {1U, 2U, 7U}) {
      const std::string out = dir / str(name, shards);
      const ShardSummary summary = made(set, {.out = out, .shards = shards});
      REQUIRE(summary.files.size() == shards);
      std::string together;
      for (const ShardSummary::File& file : summary.files) {
        CHECK(file.records - 1003 / shards <= 1);
        CHECK(file.bytes == fs::file_size(file.path));
        together += text_of(file.path);
      }
      CHECK(together == text);
      CHECK_FALSE(summary.converted);
    }
  }
  CHECK(fs::exists(dir / "a.jsonl7/a-00006-of-00007.jsonl"));
}

TEST_CASE("with by_bytes, shards differ by less than the longest record, and none is empty",
          "[tools][shard]") {
  const ScratchDir dir;
  Rng rng(5);
  std::string text;
  size_t longest = 0;
  for (int i = 0; i < 5000; ++i) {
    const size_t bytes = i < 100 ? 3000 : 5 + rng.below(200);
    longest = std::max(longest, bytes + 20);
    text += str("{\"x\": ", i, ", \"t\": \"", std::string(bytes, 'x'), "\"}\n");
  }
  const DataSet set = open_set({dir.write("a.jsonl", text)});
  const ShardSummary summary = made(set, {.out = dir / "out", .shards = 9, .by_bytes = true});
  for (const ShardSummary::File& file : summary.files)
    CHECK(std::abs(double(file.bytes) - double(text.size()) / 9) < double(longest));
  // One record larger than all others together.
  const DataSet odd = open_set({dir.write(
      "b.jsonl", "{\"x\": 1}\n{\"x\": \"" + std::string(9000, 'y') + "\"}\n{\"x\": 2}\n")});
  for (const ShardSummary::File& file :
       made(odd, {.out = dir / "odd", .shards = 3, .by_bytes = true}).files)
    CHECK(file.records == 1);
}

TEST_CASE("every shard of a table has the header, and merged files have one header",
          "[tools][shard]") {
  const ScratchDir dir;
  const DataSet set = open_set({dir.write("a.csv", csv_lines(rows_of(10)))});
  const ShardSummary summary = made(set, {.out = dir / "out", .shards = 3});
  for (const std::string& path : paths_of(summary)) CHECK(text_of(path).substr(0, 6) == "x,y,t\n");
  const ShardSummary merged = made(open_set(paths_of(summary)), {.out = dir / "merged"});
  CHECK(text_of(merged.files[0].path) == csv_lines(rows_of(10)));
  CHECK(fs::path(merged.files[0].path).filename() == "a-00000-of-00001.csv");
  const DataSet odd = open_set({dir / "a.csv", dir.write("b.csv", "y,x,t\n1,2,a\n")});
  CHECK_THAT(refused(odd, {.out = dir / "never"}).what,
             Contains("the headers of the files differ, so their lines can't be merged:"));
  const ShardSummary alike = made(odd, {.out = dir / "alike", .to = DataFormat::kCsv});
  CHECK(text_of(alike.files[0].path) == csv_lines(rows_of(10)) + "2,1,a\n");
}

TEST_CASE("records of several lines stay whole, and cells keep their line breaks",
          "[tools][shard]") {
  const ScratchDir dir;
  dir.write("a.csv", "x,t\n1,\"a\nb\"\n2,c\n3,\"\n\"\n");
  dir.write("b.csv", "t,x\n\"d\r\ne\",4\n");
  const auto set_of = [&](const std::string& source) {
    const std::string name = str("job", source.size(), ".toml");
    return open_set(
        {dir.write(name, str("[data]\nsource = ", source,
                             "\nformat = \"csv\"\nheader = true\nquoted_newlines = true\n"
                             "fields = { x = {}, t = { type = \"string\" } }\n"
                             "[model]\npreset = \"logistic_regression\"\ntarget = \"x\"\n"))});
  };
  const ShardSummary cut = made(set_of("\"a.csv\""), {.out = dir / "cut", .shards = 3});
  std::vector<std::string> texts;
  for (const std::string& path : paths_of(cut)) texts.push_back(text_of(path));
  CHECK(texts == std::vector<std::string>{"x,t\n1,\"a\nb\"\n", "x,t\n2,c\n", "x,t\n3,\"\n\"\n"});
  const ShardSummary alike =
      made(set_of("[\"a.csv\", \"b.csv\"]"), {.out = dir / "alike", .to = DataFormat::kCsv});
  CHECK(text_of(alike.files[0].path) == "x,t\n1,\"a\nb\"\n2,c\n3,\"\n\"\n4,\"d\r\ne\"\n");
  const ShardSummary lines =
      made(set_of("\"a.csv\""), {.out = dir / "l", .to = DataFormat::kJsonl});
  CHECK_THAT(text_of(lines.files[0].path), Contains("\"t\": \"a\\u000ab\""));
  CHECK_THAT(
      refused(open_set(paths_of(lines)), {.out = dir / "never", .to = DataFormat::kCsv}).what,
      Contains("contains a line break, which a cell of this format can't contain"));
}

TEST_CASE("a job's selection of its source is split into shards, without running its program",
          "[tools][shard]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 40; ++i) text += str(i, ",", i % 2, "\n");
  dir.write("a.csv", text);
  const std::string job =
      dir.write("job.toml",
                "[data]\nsource = { path = \"a.csv\", skip = 3, take = 30, shard = { count = 4, "
                "index = 1 } }\n"
                "format = \"csv\"\ncolumns = [\"x\", \"label\"]\nprogram = [\"sed\", \"s,^,9,\"]\n"
                "fields = { x = {}, label = {} }\n[model]\npreset = \"logistic_regression\"\n");
  const DataSet set = open_set({job});
  std::string wanted, all;
  for (int i = 4; i < 33; i += 4) wanted += str(i, ",", i % 2, "\n");
  const ShardSummary summary = made(set, {.out = dir / "out", .shards = 3});
  for (const std::string& path : paths_of(summary)) all += text_of(path);
  CHECK(all == wanted);
  CHECK(summary.records == 8);
  CHECK_THAT(refused(set, {.out = dir / "never", .to = DataFormat::kJsonl}).what,
             Contains("the job declares the columns of data.program's output, but shard converts "
                      "the original files"));
}

TEST_CASE("line ends, a byte order mark and a missing last line break do not belong to a record",
          "[tools][shard]") {
  const ScratchDir dir;
  const DataSet set = open_set({dir.write("a.csv", "\xef\xbb\xbfx,label\r\n1,0\r\n\r\n2,1\n3,0")});
  const ShardSummary summary = made(set, {.out = dir / "out"});
  CHECK(text_of(summary.files[0].path) == "x,label\n1,0\n2,1\n3,0\n");
}

TEST_CASE("records survive every conversion that can express them", "[tools][shard]") {
  const ScratchDir dir;
  std::vector<Row> rows = rows_of(300);
  rows[7].t = "a, \"quoted\" text";
  rows[8].t = " blanks ";
  const DataSet lines = open_set({dir.write("a.jsonl", json_lines(rows))});
  const DataSet flat = open_set({dir.write("a.csv", [&] {
    std::string text = "x,y,t\n";
    for (const Row& row : rows) {
      std::string quoted = row.t;
      if (const size_t at = quoted.find('"'); at != std::string::npos)
        quoted = "a, \"\"quoted\"\" text";
      text += str(row.x, ",", row.y, ",\"", quoted, "\"\n");
    }
    return text;
  }())});
  struct Way {
    const DataSet* from;
    std::vector<DataFormat> through;
  };
  using enum DataFormat;
  int number = 0;
  for (const Way& way : {Way{&lines, {kTfrecord, kJsonl}}, Way{&flat, {kTfrecord, kCsv}},
                         Way{&flat, {kJsonl, kTfrecord, kCsv, kJsonl}}}) {
    std::vector<std::string> paths;
    for (const DataFormat to : way.through) {
      const DataSet from = paths.empty() ? *way.from : open_set(paths);
      const ShardSummary summary =
          made(from, {.out = dir / str("way", ++number), .shards = 3, .to = to});
      CHECK(summary.converted);
      CHECK(summary.format == to);
      paths = paths_of(summary);
    }
    CHECK(multiset_of(open_set(paths)) == multiset_of(*way.from));
  }
}

TEST_CASE("numeric records become arrays, and arrays become every other format", "[tools][shard]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < 50; ++i)
    text +=
        str("{\"x\": [", i, ", ", i + 1, "], \"y\": ", i, ".5, \"n\": ", int64_t{1} << 60, "}\n");
  const DataSet lines = open_set({dir.write("a.jsonl", text)});
  const ShardSummary arrays =
      made(lines, {.out = dir / "npy", .shards = 4, .to = DataFormat::kNpy});
  CHECK(fs::path(arrays.files[0].path).filename() == "a-00000-of-00004");
  CHECK(multiset_of(open_set(paths_of(arrays))) == multiset_of(lines));
  // Rows of arrays are split, merged and shuffled without conversion.
  const ShardSummary merged =
      made(open_set(paths_of(arrays)), {.out = dir / "merged", .shuffle = true});
  CHECK_FALSE(merged.converted);
  CHECK(multiset_of(open_set(paths_of(merged))) == multiset_of(lines));
  const ShardSummary back =
      made(open_set(paths_of(arrays)), {.out = dir / "back", .to = DataFormat::kJsonl});
  CHECK(multiset_of(open_set(paths_of(back))) == multiset_of(lines));
  dir.write("one.npy", npy_file<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6}));
  const ShardSummary single =
      made(open_set({dir / "one.npy"}), {.out = dir / "single", .shards = 3});
  CHECK(fs::is_regular_file(dir / "single/one-00002-of-00003.npy"));
  CHECK(multiset_of(open_set(paths_of(single))) == multiset_of(open_set({dir / "one.npy"})));
}

TEST_CASE("libsvm stores a label and numbers, and is read back as keys with values",
          "[tools][shard]") {
  const ScratchDir dir;
  const DataSet table = open_set({dir.write("a.csv", "x,y,click\n0.5,0,1\n,2,0\n")});
  const ShardSummary svm =
      made(table, {.out = dir / "svm", .to = DataFormat::kLibsvm, .target = "click"});
  CHECK(text_of(svm.files[0].path) == "1 1:0.5\n0 2:2\n");
  const ShardSummary lines =
      made(open_set(paths_of(svm)), {.out = dir / "lines", .to = DataFormat::kJsonl});
  CHECK(text_of(lines.files[0].path) ==
        "{\"label\": 1, \"features\": {\"1\": 0.5}}\n{\"label\": 0, \"features\": {\"2\": 2}}\n");
  CHECK_THAT(refused(table, {.out = dir / "no", .to = DataFormat::kLibsvm, .target = "z"}).what,
             Contains("no field z"));
}

TEST_CASE("a field that the target format cannot express is one error that names the field",
          "[tools][shard]") {
  const ScratchDir dir;
  const DataSet set = open_set({dir.write("a.jsonl", json_lines(rows_of(20)))});
  const auto refuses = [&](DataFormat to, const std::string& text) {
    const Error error = refused(set, {.out = dir / "never", .to = to});
    CHECK_THAT(error.what, Contains(text));
    CHECK_FALSE(error.hint.empty());
    CHECK_FALSE(fs::exists(dir / "never"));
  };
  refuses(DataFormat::kCsv, "field v can't be written as csv");
  refuses(DataFormat::kNpy, "field t can't be written as npy: it contains strings");
  refuses(DataFormat::kLibsvm, "can't be written as libsvm");
  // If only a later record shows the problem, the error names its line.
  std::string text;
  for (int i = 0; i < 11'000; ++i) text += i == 10'500 ? "{\"x\": \"a\"}\n" : "{\"x\": 1}\n";
  const std::string path = dir.write("late.jsonl", text);
  const DataSet late = open_set({path});
  const Error error = refused(late, {.out = dir / "never", .to = DataFormat::kTfrecord});
  CHECK(error.where == path + ":10501");
  CHECK(error.code == ErrorCode::kBadData);
}

TEST_CASE("a shuffle keeps the multiset, depends only on its seed, and splits as evenly",
          "[tools][shard]") {
  const ScratchDir dir;
  const DataSet set = open_set({dir.write("a.tfrecord", tfrecords(rows_of(2000)))});
  const auto run = [&](const std::string& out, uint64_t seed) {
    return made(set, {.out = dir / out, .shards = 3, .shuffle = true, .seed = seed});
  };
  const ShardSummary a = run("a", 1), b = run("b", 1), c = run("c", 2);
  CHECK(multiset_of(open_set(paths_of(a))) == multiset_of(set));
  CHECK(text_of(a.files[1].path) == text_of(b.files[1].path));
  CHECK(text_of(a.files[1].path) != text_of(c.files[1].path));
  for (const ShardSummary::File& file : a.files) CHECK(file.records - 666 <= 1);
}

TEST_CASE("compressed shards are read like plain ones", "[tools][shard]") {
  const ScratchDir dir;
  const DataSet set = open_set({dir.write("a.csv", csv_lines(rows_of(5000)))});
  for (const auto& [packing, ending] :
       {std::pair{data::Compression::kGzip, ".gz"}, std::pair{data::Compression::kZstd, ".zst"}}) {
    const ShardSummary packed =
        made(set, {.out = dir / ending, .shards = 2, .compression = packing});
    CHECK(packed.files[0].path.ends_with(str("a-00000-of-00002.csv", ending)));
    CHECK(packed.files[0].bytes < 20'000);
    CHECK(multiset_of(open_set(paths_of(packed))) == multiset_of(set));
  }
}

TEST_CASE("readers split a file by the index that shard writes", "[tools][shard]") {
  const ScratchDir dir;
  const DataSet set = open_set({dir.write("a.tfrecord", tfrecords(rows_of(500)))});
  const ShardSummary indexed = made(set, {.out = dir / "out", .index = true});
  const std::string& path = indexed.files[0].path;
  CHECK(lines_of(text_of(path + ".idx")) == 500);
  // Reading the index gives the same cuts as scanning the record headers.
  std::vector<plan::FileInfo> files = open_set({path}).files;
  REQUIRE(data::find_cuts(set.data(), set.data().source, 5000, files));
  const std::vector<uint64_t> cuts = files[0].cuts;
  CHECK(cuts.size() > 5);
  fs::remove(path + ".idx");
  files[0].cuts.clear();
  REQUIRE(data::find_cuts(set.data(), set.data().source, 5000, files));
  CHECK(files[0].cuts == cuts);
  CHECK(refused(open_set({dir.write("b.csv", csv_lines(rows_of(5)))}),
                {.out = dir / "never", .index = true})
            .code == ErrorCode::kUsage);
}

TEST_CASE("nothing is overwritten, and a failed call leaves no files", "[tools][shard]") {
  const ScratchDir dir;
  const std::string frames = tfrecords(rows_of(50));
  const DataSet set = open_set({dir.write("a.tfrecord", frames)});
  made(set, {.out = dir / "out"});
  CHECK(refused(set, {.out = dir / "out"}).code == ErrorCode::kCannotCreate);
  CHECK(refused(set, {.out = dir / "a.tfrecord"}).code == ErrorCode::kCannotCreate);
  fs::create_directory(dir / "empty");
  made(set, {.out = dir / "empty"});

  const size_t before = size_t(std::distance(fs::directory_iterator(dir.path()), {}));
  const std::string cut_path = dir.write("a.tfrecord", frames.substr(0, frames.size() - 5));
  const DataSet cut = open_set({cut_path});
  const Error error = refused(cut, {.out = dir / "never", .shards = 2});
  CHECK(error.code == ErrorCode::kBadData);
  CHECK_THAT(error.what, Contains("is truncated"));
  CHECK_THAT(error.where, Contains("record 49"));
  const ShardSummary skipping = made(cut, {.out = dir / "good", .shards = 2, .skip_bad = true});
  CHECK(skipping.records == 49);
  CHECK(skipping.skipped == 1);
  CHECK(skipping.files[0].records == 25);
  // The file has changed since `set` was opened.
  CHECK(refused(set, {.out = dir / "never", .shards = 2}).code == ErrorCode::kBadData);
  CHECK(refused(cut, {.out = dir / "never", .shards = 52, .skip_bad = true}).code ==
        ErrorCode::kUsage);
  int looks = 0;
  std::string many;
  for (int i = 0; i < 30'000; ++i) many += "{\"x\": 1}\n";
  CHECK(refused(open_set({dir.write("many.jsonl", many)}),
                {.out = dir / "never", .shards = 2, .stopped = [&] { return ++looks > 12; }})
            .code == ErrorCode::kInterrupted);
  CHECK(size_t(std::distance(fs::directory_iterator(dir.path()), {})) == before + 2);
}

TEST_CASE("shard names are made from a pattern", "[tools][shard]") {
  CHECK(*shard_name("{name}-{index:05}-of-{count:05}.csv", "a", 3, 16) == "a-00003-of-00016.csv");
  CHECK(*shard_name("{index}", "a", 12, 16) == "12");
  for (const char* pattern :
       {"same.csv", "{index", "{place}", "a/{index}", "{index:x}", ".{index}"})
    CHECK(shard_name(pattern, "a", 0, 2).error().code == ErrorCode::kUsage);
}

}  // namespace
}  // namespace downpour::tools
