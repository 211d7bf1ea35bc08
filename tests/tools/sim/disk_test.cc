#include "tools/sim/disk.h"

#include <catch2/catch.hpp>

#include "shared/checkpoint/run_file.h"

namespace downpour::sim {
namespace {

/// A disk with the folder /run, and the storage of its first process.
struct RunDisk {
  explicit RunDisk(uint64_t seed) : disk(seed), storage(disk, "1") {
    REQUIRE(storage.make_dirs("/run"));
  }
  SimDisk disk;
  SimStorage storage;
};

std::string text_of(SimStorage& storage, const std::string& path) {
  const auto bytes = storage.read_file(path, 1 << 20);
  return bytes ? std::string(bytes->data(), bytes->data() + bytes->size())
               : "(" + bytes.error().what + ")";
}

TEST_CASE(
    "after a crash at any operation an atomically written file has either the old or the new "
    "content",
    "[sim]") {
  int old_seen = 0, new_seen = 0;
  for (uint64_t operation = 1; operation <= 8; ++operation) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      RunDisk run(seed);
      auto& [disk, storage] = run;
      REQUIRE(storage.write_file_atomic("/run/a", as_bytes("old")));
      storage.die_at(operation, {});
      const bool done = storage.write_file_atomic("/run/a", as_bytes("new")).has_value();
      disk.lose_power(true);
      SimStorage after(disk, "2");
      const std::string text = text_of(after, "/run/a");
      REQUIRE((text == "old" || text == "new"));
      if (done) REQUIRE(text == "new");
      (text == "old" ? old_seen : new_seen) += 1;
    }
  }
  CHECK(old_seen > 20);
  CHECK(new_seen > 20);
}

TEST_CASE("appended bytes that are not synced may be lost, torn or flipped; synced bytes stay",
          "[sim]") {
  const std::string tail(2000, 'x');
  int lost = 0, changed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RunDisk run(seed);
    auto& [disk, storage] = run;
    auto file = storage.open_append("/run/log");
    REQUIRE(file);
    REQUIRE((*file)->append(as_bytes("synced")));
    REQUIRE((*file)->commit());
    REQUIRE((*file)->append(as_bytes(tail)));
    disk.lose_power(true);
    const std::string text = text_of(storage, "/run/log");
    REQUIRE(text.substr(0, 6) == "synced");
    lost += text.size() < 6 + tail.size() ? 1 : 0;
    changed += text.substr(6) != tail.substr(0, text.size() - 6) ? 1 : 0;
  }
  CHECK(lost > 50);
  CHECK(changed > 30);
}

TEST_CASE(
    "a file that is never synced is visible at once, and may be lost, torn or damaged in a power "
    "failure",
    "[sim]") {
  int gone = 0;
  const std::string text(3000, 'x');
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RunDisk run(seed);
    auto& [disk, storage] = run;
    auto file = storage.create("/run/a");
    REQUIRE(file);
    REQUIRE((*file)->append(as_bytes(text)));
    REQUIRE((*file)->commit_volatile());
    CHECK(text_of(storage, "/run/a") == text);
    disk.lose_power(false);
    const std::string left = text_of(storage, "/run/a");
    gone += left != text ? 1 : 0;
  }
  CHECK(gone > 20);
  RunDisk run(1);
  auto& [disk, storage] = run;
  disk.faults.flip_volatile = 1;
  for (const char* path : {"/run/a", "/run/b"}) {
    auto file = storage.create(path);
    REQUIRE((*file)->append(as_bytes(text)));
    REQUIRE((*file)->commit_volatile());
  }
  CHECK(text_of(storage, "/run/a") != text);
  CHECK(text_of(storage, "/run/b") == text);
}

TEST_CASE("a full disk accepts no bytes, and a failed fsync makes nothing durable", "[sim]") {
  RunDisk run(1);
  auto& [disk, storage] = run;
  disk.faults.full = true;
  const auto full = storage.write_file_atomic("/run/a", as_bytes("text"));
  REQUIRE_FALSE(full);
  CHECK(full.error().hint.find("space") != std::string::npos);
  disk.faults = {.fsync_fails = true};
  REQUIRE_FALSE(storage.write_file_atomic("/run/a", as_bytes("text")));
  CHECK_FALSE(*storage.exists("/run/a"));
  disk.faults = {};
  CHECK(storage.write_file_atomic("/run/a", as_bytes("text")));
  CHECK(*storage.list("/run") == std::vector<std::string>{"a"});
}

TEST_CASE(
    "if several processes create a file exclusively, one succeeds; folders list what they contain",
    "[sim]") {
  SimDisk disk(1);
  SimStorage first(disk, "1"), second(disk, "2");
  REQUIRE(first.make_dirs("/run/deep"));
  CHECK(*first.create_exclusive("/run/term-1", {}));
  CHECK_FALSE(*second.create_exclusive("/run/term-1", {}));
  CHECK(*second.list("/run") == std::vector<std::string>{"deep", "term-1"});
  CHECK(second.list("/none").error().code == ErrorCode::kNoInput);
  CHECK_FALSE(first.remove("/run"));
  CHECK(first.remove("/run/deep"));
  CHECK(first.remove("/run/deep"));
}

TEST_CASE("a machine sees stale folder contents for a second, unless it refreshes them", "[sim]") {
  SimDisk disk(1);
  int64_t now_ns = 0;
  disk.now_ns = [&] { return now_ns; };
  disk.faults.stale_names = true;
  SimStorage here(disk, "1", "here"), there(disk, "2", "there");
  REQUIRE(here.make_dirs("/run"));
  REQUIRE(there.list("/run")->empty());
  CHECK_FALSE(*there.exists("/run/a"));
  REQUIRE(here.write_file_atomic("/run/a", as_bytes("x")));
  CHECK(here.list("/run")->size() == 1);  // this machine made the change itself
  CHECK(there.list("/run")->empty());
  CHECK_FALSE(*there.exists("/run/a"));
  there.refresh("/run");
  CHECK(there.list("/run")->size() == 1);
  CHECK(*there.exists("/run/a"));
  REQUIRE(here.write_file_atomic("/run/b", as_bytes("x")));
  CHECK(there.list("/run")->size() == 1);
  now_ns += kSecond;
  CHECK(there.list("/run")->size() == 2);
}

TEST_CASE("a chief takes a free term although its machine lists outdated folder contents",
          "[sim]") {
  SimDisk disk(1);
  disk.now_ns = [] { return int64_t{0}; };
  disk.faults.stale_names = true;
  SimStorage here(disk, "1", "here"), there(disk, "2", "there");
  REQUIRE(here.make_dirs("/run"));
  REQUIRE(there.list("/run")->empty());
  CHECK(*checkpoint::take_term(here, "/run") == 1);
  CHECK(*checkpoint::take_term(here, "/run") == 2);
  CHECK(*checkpoint::take_term(there, "/run") == 3);
}

TEST_CASE(
    "a new folder whose parent is not synced may disappear, unless a process asks for it again",
    "[sim]") {
  int gone = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    RunDisk run(seed);
    auto& [disk, storage] = run;
    storage.die_at(2, {});  // between mkdir and the sync of its parent
    CHECK_FALSE(storage.make_dirs("/run/new"));
    SimStorage other(disk, "2");
    CHECK(*other.exists("/run/new"));
    const bool asks = seed % 2 == 0;
    if (asks) REQUIRE(other.make_dirs("/run/new"));
    disk.lose_power(false);
    const bool there = *other.exists("/run/new");
    CHECK((there || !asks));
    gone += there ? 0 : 1;
  }
  CHECK(gone > 5);
  CHECK(gone < 35);
}

}  // namespace
}  // namespace downpour::sim
