#include "tools/cli/socket_dir.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace downpour::tools {
namespace {

namespace fs = std::filesystem;

/// A folder under /tmp that is removed at the end of the test.
struct Parent {
  std::string path;
  Parent() {
    char name[] = "/tmp/dp-sockets-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Parent() { fs::remove_all(path); }
  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

void bind_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  close(fd);
}

/// Returns a socket folder of a process that was killed with SIGKILL.
std::string folder_of_a_killed_process(const std::string& parent) {
  const pid_t child = fork();
  if (child == 0) {
    auto made = SocketDir::create({parent});
    if (!made) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (entry.path().filename().string().starts_with("downpour-")) return entry.path();
  }
  FAIL("the killed process left no folder");
  return {};
}

TEST_CASE("a socket folder is private, holds sockets and is removed with its owner", "[cli]") {
  const Parent parent;
  {
    auto made = SocketDir::create({parent.path});
    REQUIRE(made);
    struct stat found {};
    REQUIRE(stat(made->path().c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0700);
    bind_socket(made->path() + "/chief");
    const SocketDir moved = std::move(*made);
    CHECK(fs::exists(moved.path() + "/chief"));
  }
  CHECK(parent.entries() == 0);
}

TEST_CASE("the next job removes the socket folder of a killed process", "[cli]") {
  const Parent parent;
  const std::string stale = folder_of_a_killed_process(parent.path);
  bind_socket(stale + "/ps-0.1");
  auto made = SocketDir::create({parent.path});
  REQUIRE(made);
  CHECK(!fs::exists(stale));
  CHECK(parent.entries() == 1);
}

TEST_CASE("a socket folder in use is kept", "[cli]") {
  const Parent parent;
  auto first = SocketDir::create({parent.path});
  auto second = SocketDir::create({parent.path});
  REQUIRE(first);
  REQUIRE(second);
  CHECK(fs::exists(first->path() + "/lock"));
  CHECK(fs::exists(second->path() + "/lock"));
}

TEST_CASE("only folders that a job has made are removed, and no links are followed", "[cli]") {
  const Parent parent;
  const Parent elsewhere;
  std::ofstream(elsewhere.path + "/lock") << "pid 1";
  fs::create_directory_symlink(elsewhere.path, parent.path + "/downpour-abcdef");
  fs::create_directory(parent.path + "/downpour-sim-10");  // another use of the prefix
  fs::create_directory(parent.path + "/downpour-ABCDEF");  // holds a file that no job puts there
  std::ofstream(parent.path + "/downpour-ABCDEF/lock") << "pid 1";
  std::ofstream(parent.path + "/downpour-ABCDEF/notes.txt") << "keep";
  std::ofstream(parent.path + "/downpour-123456") << "a file";
  remove_stale_socket_dirs(parent.path);
  CHECK(fs::exists(elsewhere.path + "/lock"));
  CHECK(fs::is_symlink(parent.path + "/downpour-abcdef"));
  CHECK(fs::exists(parent.path + "/downpour-sim-10"));
  CHECK(fs::exists(parent.path + "/downpour-ABCDEF/notes.txt"));
  CHECK(fs::exists(parent.path + "/downpour-123456"));
}

TEST_CASE("the first usable parent is used; without one the error names each reason", "[cli]") {
  const Parent parent;
  const std::string absent = parent.path + "/absent";
  const std::string deep = parent.path + "/" + std::string(80, 'd');
  fs::create_directory(deep);
  auto made = SocketDir::create({absent, deep, parent.path});
  REQUIRE(made);
  CHECK(fs::path(made->path()).parent_path() == parent.path);
  auto none = SocketDir::create({absent, deep});
  REQUIRE(!none);
  CHECK(none.error().code == ErrorCode::kCannotCreate);
  CHECK(none.error().what.find(absent + ": No such file or directory") != std::string::npos);
  CHECK(none.error().what.find("because of the limit for socket paths it may have at most 62") !=
        std::string::npos);
  CHECK(none.error().hint.find("TMPDIR") != std::string::npos);
}

TEST_CASE("a parent with the longest permitted path leaves room for the longest socket name",
          "[cli]") {
  const Parent parent;
  const std::string longest = parent.path + "/" + std::string(62 - parent.path.size() - 1, 'd');
  fs::create_directory(longest);
  auto made = SocketDir::create({longest});
  REQUIRE(made);
  bind_socket(made->path() + "/ps-4294967295.4294967295-255");
}

TEST_CASE("TMPDIR comes before /tmp", "[cli]") {
  const char* const set = std::getenv("TMPDIR");
  const std::string before = set == nullptr ? "" : set;
  setenv("TMPDIR", "/var/tmp/", 1);
  CHECK(socket_dir_parents() == std::vector<std::string>{"/var/tmp", "/tmp"});
  setenv("TMPDIR", "", 1);
  CHECK(socket_dir_parents() == std::vector<std::string>{"/tmp"});
  if (before.empty()) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", before.c_str(), 1);
  }
}

}  // namespace
}  // namespace downpour::tools
