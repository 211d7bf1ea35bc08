#include "shared/env/storage.h"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "shared/base/units.h"
#include "shared/env/clock.h"
#include "tests/support/crashing_storage.h"
#include "tests/support/memory_limit.h"
#include "tests/support/scratch_dir.h"

namespace downpour {
namespace {

using testing::CrashingStorage;
using testing::ScratchDir;

std::string text_of(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST_CASE("an atomic write that fails at any operation leaves the old or the new file", "[env]") {
  for (int crash_at = 1;; ++crash_at) {
    const ScratchDir folder;
    PosixStorage disk;
    REQUIRE(disk.write_file_atomic(folder / "f", as_bytes("old")));
    CrashingStorage crashing(crash_at);
    const auto written = crashing.write_file_atomic(folder / "f", as_bytes("the new one"));
    const std::string text = text_of(*disk.read_file(folder / "f", 100));
    CHECK((text == "old" || text == "the new one"));
    if (written) {
      CHECK(text == "the new one");
      CHECK(disk.list(folder.path())->size() == 1);
      CHECK(crash_at == 6);  // all 5 passed: open, write, fsync, rename, fsync of the folder
      break;
    }
  }
}

TEST_CASE("a file that is not committed is removed", "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  {
    const auto file = disk.create(folder / "f");
    REQUIRE((*file)->append(as_bytes("half")));
    CHECK(disk.list(folder.path())->size() == 1);
    CHECK_FALSE(*disk.exists(folder / "f"));
  }
  CHECK(disk.list(folder.path())->empty());
}

TEST_CASE("a large file contains exactly the appended bytes, for any sizes of the pieces",
          "[env]") {
  const ScratchDir disk_folder;
  const ScratchDir memory_folder(/*in_memory=*/true);
  for (const std::string& folder : {disk_folder.path(), memory_folder.path()}) {
    for (const size_t bytes : {0, 1, 4095, 4096, 4097, 1 << 20, (2 << 20) + 100, (4 << 20)}) {
      PosixStorage disk;
      std::string text(bytes, ' ');
      for (size_t i = 0; i < bytes; ++i) text[i] = char('a' + i * 7 / 3 % 26);
      {
        const auto file = disk.create_large(folder + "/f");
        REQUIRE(file);
        for (size_t at = 0, piece = 1; at < bytes; at += piece, piece = piece * 5 + 3) {
          REQUIRE((*file)->append(as_bytes(std::string_view(text).substr(at, piece))));
        }
        CHECK_FALSE(*disk.exists(folder + "/f"));
        REQUIRE((*file)->commit());
        CHECK_FALSE((*file)->append(as_bytes("x")));
      }
      CHECK(text_of(*disk.read_file(folder + "/f", 8 << 20)) == text);
      CHECK(disk.list(folder)->size() == 1);
      REQUIRE(disk.remove(folder + "/f"));
    }
  }
}

TEST_CASE("a large file does not appear if the disk fails at any operation", "[env]") {
  const std::string text((2 << 20) + 100, 'x');
  for (int crash_at = 1;; ++crash_at) {
    const ScratchDir folder(/*in_memory=*/true);
    CrashingStorage crashing(crash_at);
    const auto write = [&]() -> Result<void> {
      DP_TRY(const auto file, crashing.create_large(folder / "f"));
      DP_TRY_VOID(file->append(as_bytes(text)));
      return file->commit();
    };
    const bool written = bool(write());
    PosixStorage disk;
    if (written || *disk.exists(folder / "f")) {
      CHECK(text_of(*disk.read_file(folder / "f", 4 << 20)) == text);
      CHECK(crash_at >= 7);  // after open, two writes, truncation, fsync and rename
    }
    if (written) break;
  }
}

TEST_CASE("a folder that another process created is made durable with its parents", "[env]") {
  struct Disk final : PosixStorage {
    bool fails = false;
    std::vector<std::string> synced;
    int fault(const char* operation, const std::string& path) override {
      if (std::string_view(operation) != "fsync") return 0;
      if (fails) return EIO;
      synced.push_back(path);
      return 0;
    }
  } first, second;
  const ScratchDir folder;
  const std::string run = folder / "run";
  REQUIRE(first.make_dirs(run));
  first.fails = true;
  CHECK_FALSE(first.make_dirs(run + "/checkpoints"));  // created, but its name is not durable
  first.fails = false;
  first.guard(run);
  second.guard(run);
  for (Disk* const disk : {&first, &second}) {
    disk->synced.clear();
    REQUIRE(disk->make_dirs(run + "/checkpoints/1-1"));
    CHECK(std::ranges::count(disk->synced, run) == 1);
    CHECK(std::ranges::count(disk->synced, run + "/checkpoints") == 1);
    disk->synced.clear();
    REQUIRE(disk->make_dirs(run + "/checkpoints/1-1"));
    CHECK(disk->synced.empty());
  }
}

TEST_CASE("after a failed fsync a file accepts no more data", "[env]") {
  struct OneFailure final : PosixStorage {
    bool failed = false;
    int fault(const char* operation, const std::string&) override {
      if (failed || std::string_view(operation) != "fsync") return 0;
      failed = true;
      return EIO;
    }
  } disk;
  const ScratchDir folder;
  const auto file = disk.create(folder / "f");
  REQUIRE((*file)->append(as_bytes("x")));
  const auto first = (*file)->commit();
  REQUIRE_FALSE(first);
  CHECK(first.error().code == ErrorCode::kIo);
  CHECK_FALSE((*file)->commit());
  CHECK_FALSE((*file)->append(as_bytes("y")));
  CHECK_FALSE(*disk.exists(folder / "f"));
}

TEST_CASE("if several threads create the same file, exactly one succeeds, and its content stays",
          "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  std::vector<int> won(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < won.size(); ++i) {
      threads.emplace_back([&, i] {
        won[i] =
            *disk.create_exclusive(folder / "term-1", as_bytes(std::string(100, char('a' + i))));
      });
    }
  }
  CHECK(std::count(won.begin(), won.end(), 1) == 1);
  const auto winner = std::find(won.begin(), won.end(), 1) - won.begin();
  CHECK(text_of(*disk.read_file(folder / "term-1", 100)) == std::string(100, char('a' + winner)));
  CHECK(disk.list(folder.path())->size() == 1);
}

TEST_CASE("the size of a read is checked before memory is allocated", "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  REQUIRE(disk.write_file_atomic(folder / "f", as_bytes("0123456789")));
  CHECK(disk.read_file(folder / "f", 9).error().code == ErrorCode::kBadData);
  CHECK(text_of(*disk.read_range(folder / "f", 3, 4)) == "3456");
  CHECK(disk.read_range(folder / "f", 10, 0)->empty());
  const auto beyond = disk.read_range(folder / "f", 8, UINT64_MAX);
  CHECK(beyond.error().what.find("ends at byte 10") != std::string::npos);
  CHECK(disk.read_range(folder / "f", UINT64_MAX, 1).error().code == ErrorCode::kBadData);
  CHECK(*disk.file_bytes(folder / "f") == 10);
}

TEST_CASE("a read that is too large for the memory is an error", "[env]") {
  if (!testing::kMemoryIsLimited) return;
  const ScratchDir folder;
  REQUIRE(testing::write_sparse(folder / "f", "", 4 * kGiB));
  CHECK(testing::fits_in_memory(kGiB, [&] {
    const auto read = PosixStorage().read_range(folder / "f", 0, 4 * kGiB);
    return !read && read.error().code == ErrorCode::kIo &&
           read.error().what == "not enough memory for 4294967296 bytes of the file";
  }));
}

TEST_CASE("storage errors are typed and name the path", "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  REQUIRE(disk.write_file_atomic(folder / "file", as_bytes("x")));
  const auto missing = disk.read_file(folder / "no", 10);
  CHECK(missing.error().code == ErrorCode::kNoInput);
  CHECK(missing.error().where == folder / "no");
  CHECK(missing.error().what.find("No such file") != std::string::npos);
  CHECK(disk.list(folder / "no").error().code == ErrorCode::kNoInput);
  CHECK(disk.read_file(folder.path(), 10).error().code == ErrorCode::kBadData);
  // A path below a file cannot be created, not even by root.
  CHECK(disk.write_file_atomic(folder / "file/x", as_bytes("y")).error().code ==
        ErrorCode::kCannotCreate);
  CHECK(disk.make_dirs(folder / "file/a/b").error().code == ErrorCode::kCannotCreate);
  CHECK(disk.make_dirs(folder / "file").error().code == ErrorCode::kCannotCreate);
  CHECK(disk.create(folder / "no/x").error().code == ErrorCode::kCannotCreate);
  if (::geteuid() != 0) {
    ::chmod(folder.path().c_str(), 0555);
    CHECK(disk.create(folder / "x").error().code == ErrorCode::kPermission);
    ::chmod(folder.path().c_str(), 0755);
  }
}

TEST_CASE("reading a named pipe is an error and does not block", "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(disk.read_file(folder / "pipe", 10).error().code == ErrorCode::kBadData);
}

TEST_CASE("folders are made with their parents, listed in order and removed when empty", "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  REQUIRE(disk.make_dirs(folder / "a/b/c/"));
  REQUIRE(disk.make_dirs(folder / "a/b/c"));
  REQUIRE(disk.write_file_atomic(folder / "a/b/z", as_bytes("")));
  CHECK(*disk.list(folder / "a/b") == std::vector<std::string>{"c", "z"});
  CHECK(disk.remove(folder / "a/b").error().code == ErrorCode::kIo);
  CHECK(disk.remove(folder / "a/b/z"));
  CHECK(disk.remove(folder / "a/b/c"));
  CHECK(disk.remove(folder / "a/b"));
  CHECK(disk.remove(folder / "a/b"));
}

TEST_CASE("reopening an append file continues at its end", "[env]") {
  const ScratchDir folder;
  PosixStorage disk;
  for (const char* line : {"one\n", "two\n"}) {
    const auto file = disk.open_append(folder / "events");
    REQUIRE((*file)->append(as_bytes(line)));
    REQUIRE((*file)->commit());
  }
  CHECK(text_of(*disk.read_file(folder / "events", 100)) == "one\ntwo\n");
  // The writer died inside a line.
  for (const char* line : {"thr", "four\n"})
    REQUIRE((*disk.open_append(folder / "events"))->append(as_bytes(line)));
  CHECK(text_of(*disk.read_file(folder / "events", 100)) == "one\ntwo\nthr\nfour\n");
}

TEST_CASE("the clock does not go back", "[env]") {
  const PosixClock clock;
  const int64_t before = clock.now_ns();
  CHECK(before > 0);
  CHECK(clock.now_ns() >= before);
}

}  // namespace
}  // namespace downpour
