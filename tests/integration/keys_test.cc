// Keys with real processes: which processes may join a job over tcp, and what a worker's key
// permits.
#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/str.h"
#include "shared/base/units.h"
#include "shared/base/version.h"
#include "shared/transport/key_folder.h"
#include "shared/transport/transport.h"
#include "shared/wire/messages.h"
#include "tests/support/clicks.h"
#include "tests/support/free_address.h"

namespace downpour::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using transport::Keyring;
using transport::PeerId;
using transport::SendStatus;

constexpr int kRows = 20'000;

void make_job(const ScratchDir& dir, int epochs) {
  write_clicks(dir, kRows);
  dir.write("job.toml", "run_dir = \"run\"\n" + clicks_job(epochs));
}

/// Checks that every epoch read and applied every record once.
void check_balanced(const Ended& ended, size_t epochs) {
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const Json done = Json::parse(ended.out.substr(ended.out.rfind('\n', ended.out.size() - 2) + 1));
  REQUIRE(done["accounts"].size() == epochs);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == kRows);
    CHECK(account["read"] == account["applied"]);
  }
}

std::vector<Json> events_of(const ScratchDir& dir, const std::string& name) {
  std::vector<Json> found;
  std::ifstream in(dir / "run/events.jsonl");
  for (std::string line; std::getline(in, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_discarded() && event.value("event", "") == name) found.push_back(event);
  }
  return found;
}

uint32_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

}  // namespace

TEST_CASE("local processes over tcp get keys by default, and only their user can read them",
          "[integration][keys]") {
  const ScratchDir dir;
  make_job(dir, 2);
  const Ended done =
      Program("downpour",
              {"train", dir / "job.toml", "--ps", "2", "--workers", "2", "--input-workers", "1",
               "--transport", "tcp", "--log-format", "json", "--quiet"},
              dir.path())
          .wait(120);
  check_balanced(done, 2);
  CHECK(mode_of(dir / "run/keys") == 0700);
  std::vector<std::string> secrets;
  for (const auto& entry : fs::directory_iterator(dir / "run/keys")) {
    CHECK(mode_of(entry.path()) == 0600);
    if (entry.path().extension() != ".key") continue;
    secrets.push_back(transport::hex_of(transport::read_key_file(entry.path())->secret_key));
  }
  CHECK(secrets.size() == 4);
  std::set<std::string> keyed;  // a process may repeat its Hello
  for (const Json& hello : events_of(dir, "hello")) {
    const std::string endpoint = hello["endpoint"];
    if (endpoint.find("?key=") != std::string::npos) keyed.insert(endpoint);
  }
  CHECK(keyed.size() == 3);  // two ps and one input process
  for (const auto& entry : fs::recursive_directory_iterator(dir / "run")) {
    if (!entry.is_regular_file() || entry.path().extension() == ".key") continue;
    const std::string text = read_text(entry.path());
    for (const std::string& secret : secrets) CHECK(text.find(secret) == std::string::npos);
  }
}

TEST_CASE("a process started by hand needs --keys or --insecure, and the error names both",
          "[integration][keys]") {
  const ScratchDir dir;
  for (const char* program : {"downpour-ps", "downpour-worker"}) {
    const Ended ended = Program(program, {"--chief", free_address()}, dir.path()).wait(20);
    CHECK(ended.status == 77);
    CHECK_THAT(ended.err, Catch::Contains("DP-2711") && Catch::Contains("--keys") &&
                              Catch::Contains("--insecure"));
    const Ended both =
        Program(program, {"--chief", free_address(), "--keys", dir / "keys", "--insecure"},
                dir.path())
            .wait(20);
    CHECK(both.status == 64);
  }
}

TEST_CASE("a process that waits for its key ends at the first stop signal", "[integration][keys]") {
  const ScratchDir dir;
  for (const std::vector<std::string>& program : {std::vector<std::string>{"downpour-ps"},
                                                  {"downpour-worker"},
                                                  {"downpour-worker", "--with-ps"}}) {
    std::vector<std::string> arguments(program.begin() + 1, program.end());
    for (const char* flag :
         {"--chief", "127.0.0.1:9", "--keys", "later", "--connect-timeout", "600"})
      arguments.emplace_back(flag);
    Program waiting(program[0], arguments, dir.path());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // until it waits
    waiting.signal(SIGTERM);
    CHECK(waiting.wait(20).status == 143);
  }
}

TEST_CASE("--insecure trains without keys and warns", "[integration][keys]") {
  const ScratchDir dir;
  make_job(dir, 1);
  const std::string address = free_address();
  Program chief(
      "downpour-chief",
      {dir / "job.toml", "--bind", address, "--json", "--insecure", "--set", "cluster.ps=1"},
      dir.path());
  Program ps("downpour-ps", {"--chief", address, "--insecure"}, dir.path());
  Program worker("downpour-worker", {"--chief", address, "--insecure", "--threads", "1"},
                 dir.path());
  const Ended done = chief.wait(60);
  check_balanced(done, 1);
  CHECK_THAT(done.err,
             Catch::Contains("insecure: connections are neither encrypted nor authenticated"));
  CHECK(!fs::exists(dir / "run/keys"));
  CHECK_THAT(done.out, Catch::Contains("\"insecure\":true"));
}

/// An attacker's program that holds a key.
class Client {
 public:
  Client(const transport::KeyPair& own, const transport::AllowList& allowed)
      : transport_(
            transport::make_zmq_transport({.keyring = std::make_shared<Keyring>(own, allowed)})) {}
  void connect(const std::string& endpoint) {
    const auto peer = transport_->connect(endpoint);
    REQUIRE(peer);
    peer_ = *peer;
  }
  /// Sends a request. Returns the first reply of type Body, or nothing after `seconds`.
  template <typename Body>
  std::optional<wire::Message> ask(wire::Body body, uint64_t run = 0, int seconds = 10) {
    wire::Message message{.envelope = {.run = run, .request = RequestId{++request_}},
                          .body = std::move(body)};
    (void)transport_->send(peer_, std::move(message));
    return next<Body>(seconds);
  }
  void tell(wire::Body body, uint64_t run) {
    wire::Message message{.envelope = {.run = run, .view = {1, UINT32_MAX}},
                          .body = std::move(body)};
    (void)transport_->send(peer_, std::move(message));
  }
  void drain() {
    const transport::Receiver receiver{.on_message = {}, .on_malformed = {}};
    while (transport_->poll(kMillisecond, 256, receiver) > 0) {
    }
  }
  template <typename Body>
  std::optional<wire::Message> next(int seconds = 10) {
    std::optional<wire::Message> found;
    const transport::Receiver receiver{
        .on_message =
            [&](transport::PortId, PeerId, wire::Message&& message) {
              if (!found && std::holds_alternative<Body>(message.body)) found = std::move(message);
            },
        .on_malformed = {}};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!found && std::chrono::steady_clock::now() < end)
      transport_->poll(20 * kMillisecond, 1, receiver);
    return found;
  }

 private:
  std::unique_ptr<transport::Transport> transport_;
  PeerId peer_{};
  uint64_t request_ = 0;
};

wire::Hello hello_as(wire::Role role, uint64_t incarnation) {
  return {.role = role,
          .index = UINT32_MAX,
          .incarnation = Incarnation{incarnation},
          .build = kBuildVersion,
          .host = "attacker",
          .pid = 1,
          .threads = 1,
          .endpoint = "tcp://127.0.0.1:1"};
}

TEST_CASE("a worker's key is good for a worker and nothing else", "[integration][keys][roles]") {
  const ScratchDir dir;
  make_job(dir, 2);
  const std::string address = free_address();
  Program chief("downpour-chief",
                {dir / "job.toml", "--bind", address, "--json", "--set", "cluster.ps=1"},
                dir.path());
  const std::string keys = dir / "run/keys";
  Program ps("downpour-ps", {"--chief", address, "--keys", keys}, dir.path());
  for (int i = 0; i < 1000 && events_of(dir, "hello").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  REQUIRE(events_of(dir, "hello").size() == 1);

  const auto folder = transport::open_key_folder(keys);
  REQUIRE(folder);
  const auto worker_key = transport::read_key_file(keys + "/worker.key");
  REQUIRE(worker_key);
  const std::string chief_endpoint = transport::with_key(
      str("tcp://", address), *folder->allowed.only_key_of(wire::Role::kChief, keys));
  uint64_t number = 1;
  for (const wire::Role role : {wire::Role::kPs, wire::Role::kInput, wire::Role::kChief}) {
    Client thief(*worker_key, folder->allowed);
    thief.connect(chief_endpoint);
    const auto refused = thief.ask<wire::Refused>(hello_as(role, ++number));
    REQUIRE(refused);
    CHECK(std::get<wire::Refused>(refused->body).code == ErrorCode::kPermission);
    CHECK_THAT(std::get<wire::Refused>(refused->body).what,
               Catch::Contains("`worker`") && Catch::Contains("DP-2715"));
    CHECK(refused->envelope.run == 0);  // the reply does not reveal the run
  }
  CHECK(events_of(dir, "refused").size() == 3);

  // As a worker it learns the run, the ps and their incarnations. This knowledge permits nothing
  // else.
  Client worker(*worker_key, folder->allowed);
  worker.connect(chief_endpoint);
  const auto welcome = worker.ask<wire::Welcome>(hello_as(wire::Role::kWorker, ++number));
  REQUIRE(welcome);
  const uint64_t run = welcome->envelope.run;
  const auto view = worker.next<wire::View>();
  REQUIRE(view);
  const wire::Owner owner = std::get<wire::View>(view->body).owners.at(0);
  Client thief(*worker_key, folder->allowed);
  thief.connect(chief_endpoint);
  CHECK(thief.ask<wire::Reject>(wire::Heartbeat{.incarnation = owner.incarnation}, run));
  CHECK(thief.ask<wire::Reject>(wire::Goodbye{{.incarnation = owner.incarnation}}, run));
  wire::Hello again = hello_as(wire::Role::kPs, raw(owner.incarnation));
  CHECK(thief.ask<wire::Refused>(again, run));
  CHECK(thief.ask<wire::Refused>(hello_as(wire::Role::kWorker, ++number), run + 1));

  const std::string outside = dir / "outside";
  fs::create_directory(outside);
  Client at_ps(*worker_key, folder->allowed);
  at_ps.connect(owner.endpoint);
  const std::vector<wire::Body> orders = {
      wire::Save{.checkpoint = {1, 99}, .folder = outside},
      wire::Freeze{
          .ownership_generation = {1, 99}, .partitions = {PartitionId{0}}, .folder = outside},
      wire::Adopt{
          .ownership_generation = {1, 99}, .partitions = {PartitionId{0}}, .folder = outside},
      wire::Stop{.code = 1, .reason = "x"}};
  for (const wire::Body& order : orders) {
    const auto reject = at_ps.ask<wire::Reject>(order, run);
    REQUIRE(reject);
    CHECK(std::get<wire::Reject>(reject->body).code == ErrorCode::kPermission);
  }
  CHECK(fs::is_empty(outside));

  // A key of another run cannot connect at all.
  const auto other = transport::make_keys(dir / "other", transport::one_key_a_role());
  REQUIRE(other);
  Client stranger(*transport::read_key_file(dir / "other/worker.key"), other->allowed);
  stranger.connect(chief_endpoint);
  CHECK_FALSE(stranger.ask<wire::Welcome>(hello_as(wire::Role::kWorker, ++number), 0, 1));

  // The programs refuse to start in another role, and do not accept a chief with a worker's key.
  const std::string file = keys + "/worker.key";
  CHECK(Program("downpour-ps", {"--chief", address, "--keys", file}, dir.path()).wait(20).status ==
        78);
  CHECK(Program("downpour-worker",
                {"--role", "input", "--chief", address, "--keys", file, "--bind", "127.0.0.1:*"},
                dir.path())
            .wait(20)
            .status == 78);
  const Ended second = Program("downpour-chief",
                               {dir / "job.toml", "--bind", free_address(), "--keys", file, "--set",
                                "run_dir=other-run"},
                               dir.path())
                           .wait(20);
  CHECK(second.status == 78);
  const std::string forged = transport::with_key(str("tcp://", address), worker_key->public_key);
  const Ended misled =
      Program("downpour-ps", {"--chief", forged, "--keys", keys}, dir.path()).wait(20);
  CHECK(misled.status == 77);
  CHECK_THAT(misled.err, Catch::Contains("DP-2715"));

  worker.ask<wire::Reject>(wire::Goodbye{{.incarnation = Incarnation{5}}}, run, 1);
  Program honest("downpour-worker", {"--chief", address, "--keys", keys, "--threads", "1"},
                 dir.path());
  check_balanced(chief.wait(120), 2);
}

TEST_CASE("a worker's key attacks beside a training job, which ends as if it were alone",
          "[integration][keys][roles]") {
  constexpr int kEpochs = 20;
  const ScratchDir dir;
  make_job(dir, kEpochs);
  const std::string address = free_address(), keys = dir / "run/keys";
  Program chief("downpour-chief",
                {dir / "job.toml", "--bind", address, "--json", "--set", "cluster.ps=1"},
                dir.path());
  Program ps("downpour-ps", {"--chief", address, "--keys", keys}, dir.path());
  Program honest("downpour-worker", {"--chief", address, "--keys", keys, "--threads", "1"},
                 dir.path());
  for (int i = 0; i < 1000 && events_of(dir, "hello").size() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto hellos = events_of(dir, "hello");
  REQUIRE(hellos.size() >= 2);
  const auto starts = events_of(dir, "start");
  REQUIRE(!starts.empty());
  const Json& ps_hello = hellos[0].value("endpoint", "").empty() ? hellos[1] : hellos[0];
  const Incarnation ps_incarnation{ps_hello["incarnation"].get<uint64_t>()};
  const uint64_t run = starts[0]["run"].get<uint64_t>();

  const auto folder = transport::open_key_folder(keys);
  REQUIRE(folder);
  const auto own = transport::read_key_file(keys + "/worker.key");
  REQUIRE(own);
  Client at_chief(*own, folder->allowed), at_ps(*own, folder->allowed);
  at_chief.connect(transport::with_key(str("tcp://", address),
                                       *folder->allowed.only_key_of(wire::Role::kChief, keys)));
  at_ps.connect(ps_hello["endpoint"].get<std::string>());
  const std::string outside = dir / "outside";
  fs::create_directory(outside);
  uint64_t number = 10;
  uint64_t attacks = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    const auto role = wire::Role(number % 4 == 2 ? 3 : number % 4);  // chief, ps, input
    at_chief.tell(hello_as(role, ++number), 0);
    at_chief.tell(wire::Heartbeat{.incarnation = ps_incarnation}, run);
    at_chief.tell(wire::Goodbye{{.incarnation = ps_incarnation}}, run);
    at_chief.tell(wire::Leave{ps_incarnation, 15}, run);
    at_chief.tell(wire::Adopted{.ownership_generation = {1, 1}, .ok = false, .error = "x"}, run);
    at_chief.tell(wire::Stop{.code = 1, .reason = "x"}, run);
    at_ps.tell(wire::Save{.checkpoint = {1, 99}, .folder = outside}, run);
    at_ps.tell(
        wire::Freeze{
            .ownership_generation = {9, 99}, .partitions = {PartitionId{0}}, .folder = outside},
        run);
    at_ps.tell(wire::Sealed{99}, run);
    at_ps.tell(wire::Stop{.code = 1, .reason = "x"}, run);
    at_ps.tell(wire::Refused{.what = "x"}, run);
    attacks += 11;
    at_chief.drain();
    at_ps.drain();
  }
  CHECK(attacks > 1000);
  check_balanced(chief.wait(120), kEpochs);
  CHECK(ps.wait(10).status == 0);
  CHECK(honest.wait(10).status == 0);
  CHECK(fs::is_empty(outside));
  CHECK(fs::file_size(dir / "run/events.jsonl") < 8U << 20);
}

TEST_CASE("links in a run folder lead no process outside", "[integration][keys][links]") {
  struct Link {
    const char* name;
    bool is_folder;
  };
  const Link links[] = {{"events.jsonl", false}, {"run", false},           {"job.toml", false},
                        {"lock", false},         {"checkpoints", true},    {"logs", true},
                        {"moves", true},         {"logs/ps-0.log", false}, {"keys", true},
                        {"history.jsonl", false}};
  for (const Link& link : links) {
    CAPTURE(link.name);
    const ScratchDir dir;
    make_job(dir, 1);
    const std::string outside = dir / "outside";
    fs::create_directories(outside + "/1-1");
    dir.write("outside/file", "precious");
    dir.write("outside/1-1/file", "precious");
    const fs::path place = fs::path(dir / "run") / link.name;
    fs::create_directories(place.parent_path());
    if (link.is_folder) {
      fs::create_directory_symlink(outside, place);
    } else {
      fs::create_symlink(outside + "/file", place);
    }
    const Ended done = Program("downpour",
                               {"train", dir / "job.toml", "--ps", "2", "--workers", "2",
                                "--transport", "tcp", "--log-format", "json", "--quiet"},
                               dir.path())
                           .wait(60);
    INFO(done.err);
    CHECK(done.status == 77);
    CHECK_THAT(done.err, Catch::Contains("DP-2721") && Catch::Contains(place.string()) &&
                             Catch::Contains("remove the link"));
    for (const std::string& file : {outside + "/file", outside + "/1-1/file"})
      CHECK(read_text(file) == "precious");
    CHECK(std::distance(fs::directory_iterator(outside), {}) == 2);
    CHECK(std::distance(fs::directory_iterator(outside + "/1-1"), {}) == 1);
  }
}

TEST_CASE("a forged chief makes a ps write nothing outside its run folder",
          "[integration][keys][links]") {
  const ScratchDir dir;
  const std::string victim = dir / "victim";
  fs::create_directory(victim);
  const auto forger = transport::make_zmq_transport();
  const auto port = forger->bind("tcp://127.0.0.1:*");
  REQUIRE(port);
  const std::string address = forger->endpoint(*port).substr(6);
  Program ps("downpour-ps", {"--chief", address, "--insecure"}, dir.path());
  bool welcomed = false;
  const transport::Receiver receiver{
      .on_message =
          [&](transport::PortId, PeerId peer, wire::Message&& message) {
            if (!std::holds_alternative<wire::Hello>(message.body) || welcomed) return;
            welcomed = true;
            const std::string job =
                "partitions = 16\n[data]\nsource = \"x.svm\"\nformat = \"libsvm\"\n"
                "[model]\npreset = \"logistic_regression\"\n";
            wire::Message welcome{.envelope = {.run = 9, .view = {1, 0}},
                                  .body = wire::Welcome{.job = job,
                                                        .base_dir = "/",
                                                        .run_dir = victim,
                                                        .shard_bytes = kMiB,
                                                        .heartbeat_ns = kSecond,
                                                        .lease_ns = kSecond}};
            CHECK(forger->send(peer, std::move(welcome)) == SendStatus::kSent);
          },
      .on_malformed = {}};
  for (int i = 0; i < 500 && !welcomed; ++i) forger->poll(20 * kMillisecond, 8, receiver);
  REQUIRE(welcomed);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < until) forger->poll(20 * kMillisecond, 8, receiver);
  const Ended ended = ps.wait(20);
  CHECK(ended.status != 0);
  CHECK_THAT(ended.err, Catch::Contains(victim));
  CHECK(fs::is_empty(victim));
}

}  // namespace downpour::testing
