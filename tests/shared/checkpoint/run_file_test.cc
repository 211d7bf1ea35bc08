#include "shared/checkpoint/run_file.h"

#include <algorithm>
#include <thread>

#include "tests/shared/checkpoint/support.h"

namespace downpour::checkpoint {
namespace {

const RunFile kRun{.id = 0x1234,
                   .plan_hash = 5,
                   .fingerprint = 6,
                   .job = "name = \"x\"\n",
                   .build = "b",
                   .created_unix_s = 7,
                   .files = {{"/data/a.svm", 100, 8}, {"/data/b.svm", 0, 9}}};

TEST_CASE("a run starts once and is read back unchanged", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const std::string run_dir = folder.path + "/runs/x";
  REQUIRE(write_run(storage, run_dir, kRun));
  CHECK(*read_run(storage, run_dir) == kRun);
  RunFile odd = kRun;
  odd.job = std::string("a\0b", 3);  // any bytes of a job are preserved
  CHECK(*decode_run(encode_run(odd), "x") == odd);
  RunFile other = kRun;
  other.id = 9;
  CHECK(write_run(storage, run_dir, other).error().code == ErrorCode::kCannotCreate);
  CHECK(read_run(storage, run_dir)->id == kRun.id);
}

TEST_CASE("the file run of the first release stays readable and is replaced as a whole",
          "[checkpoint][golden]") {
  const Folder folder;
  PosixStorage storage;
  const std::string golden = str(DP_GOLDEN_DIR, "/run-v1.bin");
  RunFile first = kRun;
  first.files.clear();
  const auto bytes = storage.read_file(golden, 1024);
  REQUIRE(bytes);
  CHECK(*decode_run(bytes->span(), golden) == first);
  REQUIRE(write_run(storage, folder.path + "/r", first));
  RunFile next = kRun;
  next.plan_hash = 6;
  REQUIRE(replace_run(storage, folder.path + "/r", next));
  CHECK(*read_run(storage, folder.path + "/r") == next);
  RunFile many = kRun;
  many.files.resize(kRunDataFilesMax + 1);
  CHECK(decode_run(encode_run(many), "run")->files.size() == kRunDataFilesMax);
}

TEST_CASE("a folder without the file `run` is reported as no run folder", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  const auto run = read_run(storage, folder.path);
  CHECK(run.error().code == ErrorCode::kNoInput);
  CHECK(run.error().what.find("not a run folder") != std::string::npos);
  CHECK(read_run(storage, folder.path + "/gone").error().code == ErrorCode::kNoInput);
}

TEST_CASE("any flipped bit and every truncation of the file run is refused", "[checkpoint]") {
  std::vector<uint8_t> bytes = encode_run(kRun);
  REQUIRE(*decode_run(bytes, "run") == kRun);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
    if (decode_run(bytes, "run")) FAIL("bit " << bit);
    bytes[bit / 8] ^= uint8_t(1 << bit % 8);
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (decode_run(std::span(bytes).first(size), "run")) FAIL("cut at " << size);
  }
}

TEST_CASE("if writing the file run stops at any point, the file is complete or absent",
          "[checkpoint]") {
  for (int crash_at = 1;; ++crash_at) {
    const Folder folder;
    CrashingStorage crashing(crash_at);
    const bool complete = bool(write_run(crashing, folder.path + "/r", kRun));
    PosixStorage disk;
    const auto run = read_run(disk, folder.path + "/r");
    CHECK((run ? *run == kRun : run.error().code == ErrorCode::kNoInput));
    if (complete) break;
    REQUIRE(crash_at < 20);
  }
}

TEST_CASE("each chief takes a term of its own that is above all others", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  CHECK(*highest_term(storage, folder.path) == 0);
  // not a valid name of a term
  REQUIRE(storage.write_file_atomic(folder.path + "/term-007", as_bytes("")));
  CHECK(*take_term(storage, folder.path) == 1);
  std::vector<uint32_t> terms(16);
  {
    std::vector<std::jthread> chiefs;
    for (uint32_t& term : terms)
      chiefs.emplace_back([&] { term = *take_term(storage, folder.path); });
  }
  std::sort(terms.begin(), terms.end());
  for (uint32_t i = 0; i < terms.size(); ++i) CHECK(terms[i] == i + 2);
  CHECK(*highest_term(storage, folder.path) == 17);
  // A copy without empty files has no terms, but its manifests have used some.
  for (uint32_t term = 1; term <= 17; ++term)
    REQUIRE(storage.remove(folder.path + "/" + str("term-", term)));
  REQUIRE(storage.make_dirs(checkpoints_dir(folder.path)));
  REQUIRE(storage.write_file_atomic(manifest_path(folder.path, {17, 4}), as_bytes("")));
  CHECK(*take_term(storage, folder.path) == 18);
}

TEST_CASE("only the images of moves that a crash left are removed", "[checkpoint]") {
  const Folder folder;
  PosixStorage storage;
  REQUIRE(remove_moves(storage, folder.path));  // no move has happened yet
  REQUIRE(storage.make_dirs(moves_dir(folder.path)));
  for (const std::string& name :
       {move_file_name({3, 7}, 1, 0, Incarnation{9}), std::string(".torn.tmp-12-1")}) {
    REQUIRE(storage.write_file_atomic(moves_dir(folder.path) + "/" + name, as_bytes("image")));
  }
  REQUIRE(storage.write_file_atomic(folder.path + "/run", as_bytes("run")));
  REQUIRE(remove_moves(storage, folder.path));
  CHECK(storage.list(moves_dir(folder.path))->empty());
  CHECK(*storage.exists(folder.path + "/run"));
}

TEST_CASE("only plain names become paths", "[checkpoint]") {
  CHECK(is_plain_name("ps-0-1-00000000000000ff.ckpt"));
  CHECK(is_plain_name(image_file_name(UINT32_MAX, UINT32_MAX, Incarnation{UINT64_MAX})));
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "/a", "-x", "a b", "a\n"})
    CHECK_FALSE(is_plain_name(name));
  CHECK_FALSE(is_plain_name(std::string(129, 'a')));
  CHECK_FALSE(is_plain_name(std::string_view("a\0b", 3)));
}

TEST_CASE("names of manifests are parsed strictly", "[checkpoint]") {
  CHECK(parse_manifest_name("manifest-3-17.dpm") == ViewId{3, 17});
  for (const char* name : {"manifest-3-17", "manifest-3.dpm", "manifest-03-1.dpm",
                           "manifest--1-2.dpm", "manifest-3-4294967296.dpm", ".manifest-3-17.dpm",
                           "manifest-3-17.dpm.tmp", "manifest-.dpm"}) {
    CHECK_FALSE(parse_manifest_name(name));
  }
}

}  // namespace
}  // namespace downpour::checkpoint
