#include "shared/env/beneath.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "shared/env/file_lock.h"
#include "shared/env/storage.h"
#include "tests/support/crashing_storage.h"
#include "tests/support/scratch_dir.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::ScratchDir;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A guarded run folder, and files outside it that must not change.
struct Guarded {
  ScratchDir dir;
  std::string run = dir / "run", outside = dir / "outside";
  PosixStorage storage;

  Guarded() {
    fs::create_directories(run + "/checkpoints/1-1");
    fs::create_directory(outside);
    dir.write("outside/file", "precious");
    dir.write("outside/other", "precious, too");
    storage.guard(run + "/");
  }
  void check_outside() const {
    CHECK(text_of(outside + "/file") == "precious");
    CHECK(text_of(outside + "/other") == "precious, too");
    CHECK(std::distance(fs::directory_iterator(outside), {}) == 2);
  }
};

template <typename T>
void check_names(const Result<T>& result, const std::string& link) {
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::kPermission);
  CHECK(result.error().id == "DP-2721");
  CHECK(result.error().where == link);
  CHECK_THAT(result.error().hint, Catch::Contains("remove the link"));
}

TEST_CASE("no operation follows a link to a file in a guarded folder", "[env][links]") {
  for (const char* target : {"file", "not-there"}) {
    CAPTURE(target);
    Guarded at;
    const std::string link = at.run + "/checkpoints/f";
    fs::create_symlink(at.outside + "/" + target, link);
    check_names(at.storage.read_file(link, 100), link);
    check_names(at.storage.read_range(link, 0, 1), link);
    check_names(at.storage.file_bytes(link), link);
    check_names(at.storage.exists(link), link);
    check_names(at.storage.create(link), link);
    check_names(at.storage.create_large(link), link);
    check_names(at.storage.create_exclusive(link, as_bytes("x")), link);
    check_names(at.storage.open_append(link), link);
    check_names(at.storage.write_file_atomic(link, as_bytes("x")), link);
    check_names(at.storage.make_dirs(link), link);
    check_names(open_beneath(at.run, link, O_WRONLY | O_CREAT | O_TRUNC, 0644), link);
    CHECK(at.storage.remove(link));  // removes the link itself
    CHECK_FALSE(fs::is_symlink(link));
    at.check_outside();
  }
}

TEST_CASE("no operation follows a link to a folder in a guarded folder", "[env][links]") {
  for (const char* way : {"checkpoints", "checkpoints/1-1"}) {
    CAPTURE(way);
    Guarded at;
    const std::string link = at.run + "/" + way;
    fs::remove_all(link);
    fs::create_directory_symlink(at.outside, link);
    const std::string file = link + "/file", fresh = link + "/fresh";
    check_names(at.storage.read_file(file, 100), link);
    check_names(at.storage.exists(file), link);
    check_names(at.storage.list(link), link);
    check_names(at.storage.create(fresh), link);
    check_names(at.storage.create_exclusive(fresh, as_bytes("x")), link);
    check_names(at.storage.open_append(file), link);
    check_names(at.storage.make_dirs(fresh), link);
    check_names(at.storage.remove(file), link);
    check_names(open_beneath(at.run, file, O_WRONLY | O_TRUNC), link);
    at.check_outside();
  }
}

TEST_CASE("a link that replaces the folder of a file during its writing receives no data",
          "[env][links]") {
  Guarded at;
  const std::string folder = at.run + "/checkpoints/1-1";
  auto file = at.storage.create(folder + "/f");
  REQUIRE(file);
  REQUIRE((*file)->append(as_bytes("image")));
  fs::rename(folder, folder + "-moved");
  fs::create_directory_symlink(at.outside, folder);
  CHECK((*file)->commit());
  CHECK(text_of(folder + "-moved/f") == "image");  // in the folder where the file was created
  at.check_outside();
}

TEST_CASE("the guarded folder itself may be a link, and paths outside it are not guarded",
          "[env][links]") {
  Guarded at;
  fs::create_directory_symlink(at.run, at.dir / "named");
  PosixStorage storage;
  storage.guard(at.dir / "named");
  const std::string file = at.dir / "named/checkpoints/1-1/f";
  REQUIRE(storage.write_file_atomic(file, as_bytes("x")));
  CHECK(text_of(at.run + "/checkpoints/1-1/f") == "x");
  REQUIRE(storage.make_dirs(at.dir / "named/a/b"));
  CHECK(storage.list(at.dir / "named")->size() == 2);
  CHECK(storage.remove(at.dir / "named/a/b"));
  CHECK(*storage.exists(at.dir / "named/a"));
  CHECK_FALSE(*storage.exists(at.dir / "named/a/b/c"));
  CHECK(storage.remove(at.dir / "named/a/b/c"));
  CHECK(storage.create(at.dir / "named/x/y").error().code == ErrorCode::kCannotCreate);
  CHECK(storage.read_file(at.dir / "named/x/y", 1).error().code == ErrorCode::kNoInput);
  fs::create_symlink(at.outside + "/file", at.dir / "link");
  CHECK(storage.read_file(at.dir / "link", 100));  // this link is not below the guarded folder
  CHECK(storage.read_file(at.dir / "named/../run/x", 1).error().code == ErrorCode::kPermission);
}

TEST_CASE("a guarded atomic write that fails at any operation leaves the old or the new file",
          "[env][links]") {
  for (int crash_at = 1;; ++crash_at) {
    const ScratchDir folder;
    PosixStorage disk;
    REQUIRE(disk.write_file_atomic(folder / "f", as_bytes("old")));
    testing::CrashingStorage crashing(crash_at);
    crashing.guard(folder.path());
    const auto written = crashing.write_file_atomic(folder / "f", as_bytes("the new one"));
    const std::string text = text_of(folder / "f");
    CHECK((text == "old" || text == "the new one"));
    if (!written) continue;
    CHECK(text == "the new one");
    CHECK(disk.list(folder.path())->size() == 1);
    CHECK(crash_at == 6);  // all 5 passed: open, write, fsync, rename, fsync of the folder
    break;
  }
}

TEST_CASE("taking a lock does not truncate the target of a link", "[env][links]") {
  Guarded at;
  const std::string link = at.run + "/lock";
  fs::create_symlink(at.outside + "/file", link);
  check_names(FileLock::take(link, "host, pid"), link);
  at.check_outside();
}

}  // namespace
}  // namespace downpour
