// list_files and find_cuts: globs, hints, fingerprints and huge files.
#include <chrono>
#include <set>
#include <thread>

#include "shared/base/units.h"
#include "tests/shared/data/support.h"
#include "tests/support/arrays.h"
#include "tests/support/memory_limit.h"

namespace downpour::data {
namespace {

using Catch::Contains;

TEST_CASE("the matches of a glob are sorted, and paths keep the order of the job", "[data]") {
  const ScratchDir dir;
  for (const char* name : {"part-2", "part-10", "part-1", "extra"}) dir.write(name, name);
  const auto files = list_files({}, {.paths = {"extra", "part-*"}}, dir.path()).value();
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.path.substr(dir.path().size() + 1));
  CHECK(names == std::vector<std::string>{"extra", "part-1", "part-10", "part-2"});
  CHECK(files[0].bytes == 5);
  CHECK(files[0].splittable);
  CHECK(files[1].fingerprint != files[2].fingerprint);
}

TEST_CASE("a folder stands for its files, without marks and folders", "[data]") {
  const ScratchDir dir;
  std::filesystem::create_directories(dir / "day/part=1");
  for (const char* name : {"b.csv", "a.csv", "_SUCCESS", ".a.csv.crc"})
    dir.write(str("day/", name), name[0] == '_' ? "" : "1,2\n");
  DataSpec data;
  data.format = DataFormat::kCsv;
  for (const char* path : {"day", "day/"}) {
    data.source.paths = {path};
    const auto files = list_files(data, data.source, dir.path());
    REQUIRE(files);
    REQUIRE(files->size() == 2);
    CHECK((*files)[0].path == dir / "day/a.csv");
    CHECK((*files)[1].path == dir / "day/b.csv");
  }
  data.source.paths = {"day/part=1"};
  const auto none = list_files(data, data.source, dir.path());
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kNoInput);
  CHECK(none.error().what == "the folder contains no data files");
}

TEST_CASE("a path that names an existing file is not treated as a glob", "[data]") {
  const ScratchDir dir;
  dir.write("a[1].csv", "x");
  CHECK(list_files({}, {.paths = {"a[1].csv"}}, dir.path()).value().size() == 1);
  // glob() takes ** for *, so that files of other depths would be missing.
  CHECK(list_files({}, {.paths = {"**/*.csv"}}, dir.path()).error().what ==
        "`**` is not supported in a glob");
}

TEST_CASE("the error for an absent file names it and the most similar existing one", "[data]") {
  const ScratchDir dir;
  dir.write("train.tsv", "x");
  dir.write("unrelated", "x");
  const Error error = list_files({}, {.paths = {"trian.tsv"}}, dir.path()).error();
  CHECK(error.code == ErrorCode::kNoInput);
  CHECK_THAT(error.what, Contains("trian.tsv"));
  CHECK_THAT(error.hint, Contains("train.tsv"));
  CHECK_THAT(list_files({}, {.paths = {"nowhere/f"}}, dir.path()).error().hint,
             Contains("no folder"));
}

TEST_CASE("no match, an empty file, a device and an empty list are errors", "[data]") {
  const ScratchDir dir;
  dir.write("empty", "");
  CHECK(list_files({}, {.paths = {"*.nix"}}, dir.path()).error().code == ErrorCode::kNoInput);
  CHECK_THAT(list_files({}, {.paths = {"empty"}}, dir.path()).error().what, Contains("empty"));
  CHECK_THAT(list_files({}, {.paths = {"/dev/null"}}, "/").error().what, Contains("regular"));
  CHECK(list_files({}, {}, "/").error().code == ErrorCode::kNoInput);
}

TEST_CASE("the fingerprint depends on the first byte, the last byte and the size", "[data]") {
  const ScratchDir dir;
  std::string text(300'000, 'a');
  const auto fingerprint = [&] {
    return list_files({}, {.paths = {dir.write("f", text)}}, "/").value()[0].fingerprint;
  };
  const uint64_t before = fingerprint();
  CHECK(fingerprint() == before);
  text[0] = 'b';
  const uint64_t start = fingerprint();
  text[0] = 'a';
  text.back() = 'b';
  const uint64_t end = fingerprint();
  text.back() = 'a';
  text += 'a';
  CHECK(std::set<uint64_t>{before, start, end, fingerprint()}.size() == 4);
}

TEST_CASE("a cached fingerprint is used only as long as the file does not change", "[data]") {
  const ScratchDir dir;
  const std::string path = dir.write("f", std::string(1000, 'a'));
  const std::string other = dir.write("g", std::string(1000, 'c'));
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  const auto fingerprint = [&] {
    return list_files({}, {.paths = {path}}, "/").value()[0].fingerprint;
  };
  const uint64_t before = fingerprint();
  CHECK(fingerprint() == before);
  const auto written = std::filesystem::last_write_time(path);
  dir.write("f", std::string(1000, 'b'));
  std::filesystem::last_write_time(path, written);  // like a copy that preserves times
  const uint64_t changed = fingerprint();
  CHECK(changed != before);
  std::filesystem::rename(other, path);
  CHECK(std::set<uint64_t>{before, changed, fingerprint()}.size() == 3);
}

TEST_CASE("the mean record size is estimated from the first 256 KiB of a file", "[data]") {
  const ScratchDir dir;
  CHECK(mean_record_bytes({.format = DataFormat::kLibsvm}, dir.write("f", "1 1:1\n1 1:1\n"))
            .value() == 6);
  CHECK(mean_record_bytes({.format = DataFormat::kLibsvm}, dir.write("f", "1")).value() == 1);
  std::string lines;  // 7 bytes each
  while (lines.size() < 300'000) lines += "1 1:10\n";
  CHECK(mean_record_bytes({.format = DataFormat::kLibsvm}, dir.write("f", lines)).value() ==
        (256 << 10) / (((256 << 10) - 1) / 7));
}

TEST_CASE("files of huge size are listed and rejected quickly and with little memory", "[data]") {
  const ScratchDir dir(/*in_memory=*/true);
  if (!testing::write_sparse(dir / "f.tsv", "1\t2\n", uint64_t{1} << 50)) {
    WARN("SKIPPED: no file system here knows files of 1 PiB");
    return;
  }
  std::string head = testing::npy("'|u1'", "(288230376151711744,)", "");
  REQUIRE(testing::write_sparse(dir / "f.npy", head, head.size() + (uint64_t{1} << 58)));
  std::vector<plan::FileInfo> files;
  for (const auto& [name, format] :
       {std::pair("f.tsv", DataFormat::kTsv), std::pair("f.npy", DataFormat::kNpy)}) {
    INFO(name);
    DataSpec data{.source = {.paths = {name}}, .format = format};
    files = list_files(data, data.source, dir.path()).value();
    REQUIRE(files.size() == 1);
    CHECK(testing::fits_in_memory(64 * kMiB, [&] {
      const auto cut = find_cuts(data, data.source, kMiB, files);
      return !cut && cut.error().code == ErrorCode::kConfig &&
             cut.error().where == "data.shard_records";
    }));
    // With pieces that are large enough the file can be cut.
    CHECK(find_cuts(data, data.source, files[0].bytes >> 20, files));
  }
}

TEST_CASE("a file with too many shards is rejected before a scan for record boundaries", "[data]") {
  const ScratchDir dir(/*in_memory=*/true);
  if (!testing::write_sparse(dir / "f", "", uint64_t{1} << 50)) return;
  DataSpec data{.source = {.paths = {"f"}}, .format = DataFormat::kTfrecord};
  std::vector<plan::FileInfo> files = list_files(data, data.source, dir.path()).value();
  const auto cut = find_cuts(data, data.source, kMiB, files);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == ErrorCode::kConfig);
}

TEST_CASE("a line of more than 256 MiB is an error", "[data]") {
  const ScratchDir dir(/*in_memory=*/true);
  const std::string path = dir / "f.tsv";
  constexpr uint64_t kHole = uint64_t{1} << 42;
  if (!testing::write_sparse(path, "1 1:1\n2 2:2\n", kHole)) return;
  auto plan = plan_of(path);
  reads_libsvm(*plan);
  plan->data.bad_records = BadRecords::kSkip;
  for (const plan::ShardRange& range :
       {plan::ShardRange{0, 0, kMiB}, plan::ShardRange{0, kHole / 2, kHole / 2 + kMiB}}) {
    const auto read = read_shard(plan, range);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::kBadData);
    CHECK_THAT(read.error().what, Contains("a line is longer than 256 MiB:"));
  }
}

}  // namespace
}  // namespace downpour::data
