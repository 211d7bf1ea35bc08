#include "shared/env/child_process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/support/scratch_dir.h"

namespace downpour {
namespace {

using testing::ScratchDir;

ChildCommand shell(const std::string& script) { return {.argv = {"sh", "-c", script}}; }

int status_of(const Started& started) {
  REQUIRE(started.error == 0);
  int status = 0;
  REQUIRE(reap(started.pid, 0, status));
  return status;
}

TEST_CASE("a child gets its folder, variables and descriptors", "[env][child]") {
  const ScratchDir dir;
  for (const bool own : {false, true}) {
    const std::string path = dir / (own ? "own" : "foreign");
    const int out = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ChildCommand command = shell("pwd; echo $DP_TEST_VARIABLE >&2; exit 3");
    command.directory = "/";
    command.environment = {{"DP_TEST_VARIABLE", "42"}};
    command.out = command.err = out;
    const int status = status_of(own ? start_own(command, SIGKILL, true) : start_foreign(command));
    ::close(out);
    CHECK(end_text(status) == "ended with status 3");
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    CHECK(text.str() == "/\n42\n");
  }
}

TEST_CASE("a program that does not exist is reported by its errno", "[env][child]") {
  const ChildCommand absent{.argv = {"/no/such/program"}};
  CHECK(start_foreign(absent).error == ENOENT);
  CHECK(start_own(absent, SIGKILL, false).error == ENOENT);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}

TEST_CASE("the end by a signal is named", "[env][child]") {
  CHECK(end_text(status_of(start_foreign(shell("kill -9 $$")))) ==
        "was killed by signal 9 (Killed)");
}

TEST_CASE("a foreign program leads its own process group", "[env][child]") {
  const Started started = start_foreign(shell("sleep 60 & wait"));
  REQUIRE(started.error == 0);
  CHECK(::getpgid(started.pid) == started.pid);
  int status = 0;
  CHECK_FALSE(reap(started.pid, WNOHANG, status));
  CHECK(::kill(-started.pid, SIGKILL) == 0);
  CHECK(reap(started.pid, 0, status));
}

TEST_CASE("stop signals stay pending for a program of Downpour that holds them", "[env][child]") {
  const Started started = start_own({.argv = {"sleep", "0.2"}}, SIGKILL, true);
  REQUIRE(started.error == 0);
  ::kill(started.pid, SIGTERM);
  CHECK(end_text(status_of(started)) == "ended with status 0");
}

TEST_CASE("a program of Downpour ends with the process that started it", "[env][child]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(ends[0]);
    start_own(shell("sleep 60"), SIGKILL, false);
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 0);  // the grandchild held the pipe open until it ended
  ::close(ends[0]);
  int status = 0;
  reap(parent, 0, status);
}

}  // namespace
}  // namespace downpour
