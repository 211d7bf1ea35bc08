#include "shared/env/file_lock.h"

#include <filesystem>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace downpour {
namespace {

struct Path {
  std::string path;
  Path() {
    path = (std::filesystem::temp_directory_path() / "dp-lock-XXXXXX").string();
    const int fd = mkstemp(path.data());
    REQUIRE(fd >= 0);
    close(fd);
  }
  ~Path() { std::filesystem::remove(path); }
};

TEST_CASE("locking a locked file fails with the text that its holder wrote", "[env]") {
  const Path at;
  auto first = FileLock::take(at.path, "host a, pid 1");
  REQUIRE(first);
  const auto second = FileLock::take(at.path, "host b, pid 2");
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kUnavailable);
  CHECK(second.error().what == "host a, pid 1");
  { const FileLock gone = std::move(*first); }
  CHECK(FileLock::take(at.path, "host b, pid 2"));
}

TEST_CASE("after the locked file is deleted, a new file of that name can be locked", "[env]") {
  const Path at;
  const auto zombie = FileLock::take(at.path, "zombie");
  REQUIRE(zombie);
  std::filesystem::remove(at.path);
  const auto next = FileLock::take(at.path, "next");
  REQUIRE(next);
  CHECK(FileLock::take(at.path, "third").error().what == "next");
}

TEST_CASE("the lock of a killed process is released", "[env]") {
  const Path at;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = FileLock::take(at.path, "child");
    const char byte = held ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  CHECK_FALSE(FileLock::take(at.path, "parent"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(FileLock::take(at.path, "parent"));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace downpour
