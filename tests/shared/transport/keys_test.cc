#include "shared/transport/keys.h"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "shared/transport/key_folder.h"
#include "shared/transport/keyring.h"
#include "shared/transport/zap.h"
#include "tests/support/scratch_dir.h"

namespace downpour::transport {
namespace {

using downpour::testing::ScratchDir;
namespace fs = std::filesystem;

Key key_of(uint8_t byte) {
  Key key;
  key.fill(byte);
  return key;
}

uint32_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string list_error(const std::string& text) {
  const auto list = AllowList::parse(text, "allowed");
  return list ? "" : str(list.error().where, " ", list.error().what);
}

TEST_CASE("a key has 64 hexadecimal digits, and any other text is refused", "[keys]") {
  const Key key = key_of(0xa5);
  CHECK(hex_of(key).size() == 64);
  CHECK(key_from_hex(hex_of(key)) == key);
  CHECK(!key_from_hex(""));
  CHECK(!key_from_hex(hex_of(key) + "0"));
  CHECK(!key_from_hex(hex_of(key).substr(1)));
  std::string wrong = hex_of(key);
  wrong[10] = 'g';
  CHECK(!key_from_hex(wrong));
}

TEST_CASE("an allow-list gives each key its role and name", "[keys]") {
  const std::string text = str("# comment\n\nworker  worker-0 ", hex_of(key_of(9)), "\r\nps ps-0\t",
                               hex_of(key_of(3)), "\nchief chief ", hex_of(key_of(5)));
  const auto list = AllowList::parse(text, "allowed");
  REQUIRE(list);
  CHECK(list->keys().size() == 3);
  REQUIRE(list->find(key_of(9)) != nullptr);
  CHECK(list->find(key_of(9))->role == wire::Role::kWorker);
  CHECK(list->find(key_of(9))->name == "worker-0");
  CHECK(list->find(key_of(1)) == nullptr);
  CHECK(list->only_key_of(wire::Role::kChief, "allowed").value() == key_of(5));
  CHECK(!list->only_key_of(wire::Role::kInput, "allowed"));
  const auto again = AllowList::parse(list->text(), "allowed");
  REQUIRE(again);
  CHECK(again->keys() == list->keys());
}

TEST_CASE("a damaged allow-list is refused completely, and the line is named", "[keys]") {
  const std::string key = hex_of(key_of(1));
  CHECK_THAT(list_error("boss x " + key), Catch::Contains("allowed:1 the role"));
  CHECK_THAT(list_error("ps ../x " + key), Catch::Contains("the name"));
  CHECK_THAT(list_error("ps " + std::string(129, 'x') + " " + key), Catch::Contains("the name"));
  CHECK_THAT(list_error("\nps x " + key.substr(1)), Catch::Contains("allowed:2 the key"));
  CHECK_THAT(list_error("ps x"), Catch::Contains("the key"));
  CHECK_THAT(list_error("ps x " + key + " more"), Catch::Contains("text follows"));
  CHECK_THAT(list_error("ps x " + key + "\nworker y " + key),
             Catch::Contains("` has the same key as another name"));
  CHECK_THAT(list_error("ps x " + key + "\nps x " + hex_of(key_of(2))),
             Catch::Contains("allowed:2 the name is listed twice"));
  CHECK_THAT(list_error(std::string(AllowList::kBytesMax + 1, '#')), Catch::Contains("bytes"));
}

TEST_CASE("an endpoint contains the key of the listening process", "[keys]") {
  const Key key = key_of(7);
  const std::string text = with_key("tcp://10.0.0.1:7000", key);
  const auto split = split_key(text);
  REQUIRE(split);
  CHECK(split->endpoint == "tcp://10.0.0.1:7000");
  CHECK(split->key == key);
  CHECK(!split_key("tcp://10.0.0.1:7000")->key);
  CHECK(split_key("ipc:///tmp/a?b")->endpoint == "ipc:///tmp/a?b");
  CHECK(!split_key("tcp://10.0.0.1:7000?"));
  CHECK(!split_key("tcp://10.0.0.1:7000?key="));
  CHECK(!split_key(text + "0"));
  CHECK(!split_key(text + "?key=" + hex_of(key)));
}

TEST_CASE("a new key folder is only for its owner, and keys can be added", "[keys]") {
  const ScratchDir scratch;
  const std::string folder = scratch / "above/keys";
  std::vector<std::string> added;
  const auto made = make_keys(folder, one_key_a_role(), &added);
  REQUIRE(made);
  CHECK(added == std::vector<std::string>{"chief", "ps", "worker", "input"});
  CHECK(mode_of(folder) == 0700);
  for (const auto& entry : fs::directory_iterator(folder)) CHECK(mode_of(entry.path()) == 0600);
  const std::string before = text_of(folder + "/worker.key");
  added.clear();
  const auto more = make_keys(folder, one_key_a_process(2, 1, 0), &added);
  REQUIRE(more);
  CHECK(added == std::vector<std::string>{"ps-0", "ps-1", "worker-0"});
  CHECK(text_of(folder + "/worker.key") == before);
  CHECK(more->allowed.keys().size() == 7);
  const auto pair = read_key_file(folder + "/worker-0.key");
  REQUIRE(pair);
  REQUIRE(more->allowed.find(pair->public_key) != nullptr);
  CHECK(more->allowed.find(pair->public_key)->name == "worker-0");
  CHECK_THAT(text_of(folder + "/allowed"), !Catch::Contains(hex_of(pair->secret_key)));
}

TEST_CASE("keys that other users can read, change or own are refused with a remedy", "[keys]") {
  const ScratchDir scratch;
  const std::string folder = scratch / "keys";
  REQUIRE(make_keys(folder, one_key_a_role()));
  const auto opened = [&] { return Keyring::open(folder, wire::Role::kWorker, UINT32_MAX); };
  REQUIRE(opened());
  const auto refused = [&](const std::string& path, fs::perms mode, const std::string& hint) {
    const fs::perms before = fs::status(path).permissions();
    fs::permissions(path, mode);
    const auto ring = opened();
    REQUIRE(!ring);
    CHECK(ring.error().code == ErrorCode::kPermission);
    CHECK(ring.error().hint == hint);
    CHECK(ring.error().id == "DP-2712");
    fs::permissions(path, before);
  };
  const std::string secret = folder + "/worker.key";
  refused(secret, fs::perms(0640), "chmod 600 " + secret);
  refused(secret, fs::perms(0604), "chmod 600 " + secret);
  refused(folder, fs::perms(0750), "chmod 700 " + folder);
  refused(folder + "/allowed", fs::perms(0620), "chmod 600 " + folder + "/allowed");
  fs::permissions(folder + "/allowed", fs::perms(0644));  // the list holds no secret
  CHECK(opened());
  fs::rename(secret, scratch / "elsewhere.key");
  fs::create_symlink(scratch / "elsewhere.key", secret);
  CHECK(!opened());
}

TEST_CASE("a process uses the key of its index, or else of its role, never of another role",
          "[keys]") {
  const ScratchDir scratch;
  const std::string folder = scratch / "keys";
  REQUIRE(make_keys(folder, one_key_a_role()));
  REQUIRE(make_keys(folder, {{wire::Role::kPs, "ps-1"}}));
  CHECK(Keyring::open(folder, wire::Role::kPs, 1).value()->name() == "ps-1");
  CHECK(Keyring::open(folder, wire::Role::kPs, 0).value()->name() == "ps");
  CHECK(Keyring::open(folder, wire::Role::kPs, UINT32_MAX).value()->name() == "ps");
  CHECK(Keyring::open(folder + "/ps.key", wire::Role::kPs, 1).value()->name() == "ps");
  const auto wrong = Keyring::open(folder + "/worker.key", wire::Role::kPs, 0);
  REQUIRE(!wrong);
  CHECK_THAT(wrong.error().what, Catch::Contains("role worker") && Catch::Contains("is a ps"));
  const auto missing = Keyring::open(scratch / "nothing", wire::Role::kPs, 0);
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::kNoInput);
  REQUIRE(revoke_key(folder, "ps-1"));
  CHECK(!fs::exists(folder + "/ps-1.key"));
  CHECK(!revoke_key(folder, "ps-1"));
  CHECK(Keyring::open(folder, wire::Role::kPs, 1).value()->name() == "ps");
}

TEST_CASE("a keyring follows its list, and keeps the previous one if the new one is damaged",
          "[keys]") {
  const ScratchDir scratch;
  const std::string folder = scratch / "keys";
  REQUIRE(make_keys(folder, one_key_a_role()));
  const auto ring = Keyring::open(folder, wire::Role::kChief, UINT32_MAX).value();
  std::vector<std::string> notices;
  ring->notice = [&](const std::string& text) { notices.push_back(text); };
  const Key worker = read_key_file(folder + "/worker.key")->public_key;
  const uint64_t version = ring->version();
  ring->reload();
  CHECK(ring->version() == version);
  REQUIRE(revoke_key(folder, "worker"));
  ring->reload();
  CHECK(ring->version() > version);
  CHECK(ring->allowed()->find(worker) == nullptr);
  CHECK(notices.empty());
  std::ofstream(folder + "/allowed") << "rubbish\n";
  ring->reload();
  ring->reload();
  CHECK(ring->allowed()->keys().size() == 3);
  CHECK(notices.size() == 1);
}

TEST_CASE("ZAP admits a key of the list as its User-Id, and refuses everything else", "[keys]") {
  AllowList list;
  list.add({wire::Role::kWorker, "w", key_of(1)});
  const auto raw = [](const Key& key) {
    return std::string(reinterpret_cast<const char*>(key.data()), key.size());
  };
  const std::string known = raw(key_of(1));
  const std::string other = raw(key_of(2));
  std::vector<std::string_view> frames = {"1.0", "id", "domain", "10.0.0.1", "", "CURVE", known};
  const auto asked = [&] { return parse_zap_request(frames); };
  REQUIRE(asked());
  CHECK(answer_zap(*asked(), &list) ==
        std::vector<std::string>{"1.0", "id", "200", "OK", hex_of(key_of(1)), ""});
  CHECK(!is_admitted(answer_zap(*asked(), nullptr)));
  frames[6] = other;
  const auto refused = answer_zap(*asked(), &list);
  CHECK(!is_admitted(refused));
  CHECK(refused[1] == "id");
  CHECK(refused[4].empty());
  frames[5] = "NULL";
  CHECK(!asked());
  frames[5] = "PLAIN";
  CHECK(!asked());
  frames[5] = "CURVE";
  frames[6] = std::string_view(known).substr(1);
  CHECK(!asked());
  frames.pop_back();
  CHECK(!asked());
  CHECK(!is_admitted(refuse_zap(frames)));
  CHECK(refuse_zap({})[2] == "400");
}

}  // namespace
}  // namespace downpour::transport
