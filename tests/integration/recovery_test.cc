// Real processes on fixed addresses that are killed and started again by hand. The job continues.
#include <arpa/inet.h>
#include <memory>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/clicks.h"
#include "tests/support/free_address.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

constexpr int kRows = 100000;
constexpr int kEpochs = 12;

/// A chief, two ps and two workers of one job, each in its own process.
struct Cluster {
  ScratchDir dir;
  std::string chief_at = free_address();
  std::unique_ptr<Program> chief, ps[2], workers[2];

  explicit Cluster(int epochs = kEpochs) {
    write_clicks(dir, kRows);
    dir.write("job.toml", clicks_job(epochs) +
                              "eval = { holdout = 0.1 }\n"
                              "cluster = { ps = 2, workers = 2 }\n");
    start_chief();
    for (int i = 0; i < 2; ++i) start_ps(i);
    for (int i = 0; i < 2; ++i) start_worker(i);
  }
  /// Returns the folder of the keys, which the chief makes.
  std::string keys() const { return dir / "runs/job/keys"; }
  void start_chief(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {dir / "job.toml", "--bind", chief_at, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    chief = std::make_unique<Program>("downpour-chief", arguments, dir.path());
  }
  void start_ps(int i) {
    ps[i] = std::make_unique<Program>("downpour-ps",
                                      std::vector<std::string>{"--chief", chief_at, "--index",
                                                               std::to_string(i), "--keys", keys()},
                                      dir.path());
  }
  void start_worker(int i) {
    workers[i] = std::make_unique<Program>(
        "downpour-worker",
        std::vector<std::string>{"--chief", chief_at, "--index", std::to_string(i), "--threads",
                                 "1", "--keys", keys()},
        dir.path());
  }
  void kill9(std::unique_ptr<Program>& program) {
    program->signal(SIGKILL);
    program->wait(10);
  }
  std::string events() const { return read_text(dir / "runs/job/events.jsonl"); }
  size_t count(const std::string& event) const {
    const std::string text = events();
    size_t n = 0;
    for (size_t at = text.find(event); at != std::string::npos; at = text.find(event, at + 1)) ++n;
    return n;
  }
  /// Waits until the event file contains `text` more than `before` times.
  void wait_for(const std::string& text, size_t before) {
    for (int i = 0; i < 12000 && count(text) <= before; ++i) usleep(5000);
    INFO(text);
    REQUIRE(count(text) > before);
  }
  void check_end() {
    const Ended ended = chief->wait(240);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    const Json done = Json::parse(ended.out);
    REQUIRE(done["accounts"].size() == kEpochs);
    for (const Json& account : done["accounts"]) {
      CHECK(account["read"] == kRows);
      CHECK(account["read"] ==
            account["applied"].get<int64_t>() + account["filtered"].get<int64_t>());
    }
    for (int i = 0; i < 2; ++i) {
      CHECK(ps[i]->wait(20).status == 0);
      CHECK(workers[i]->wait(20).status == 0);
    }
  }
};

TEST_CASE(
    "a ps and then the chief are killed and restarted: no other process restarts, and every record "
    "counts once",
    "[integration]") {
  Cluster c;
  c.wait_for("\"event\":\"published\"", 0);
  c.wait_for("\"event\":\"ended\"", 0);
  const size_t views = c.count("\"event\":\"view\"");
  c.kill9(c.ps[1]);
  c.start_ps(1);
  c.wait_for("\"event\":\"view\"", views);
  c.wait_for("\"event\":\"published\"", c.count("\"event\":\"published\""));
  // A shard later every ps has received `Sealed` for that checkpoint. Otherwise the new chief might
  // restore a partition that has sealed fewer epochs.
  c.wait_for("\"event\":\"ended\"", c.count("\"event\":\"ended\""));
  c.kill9(c.chief);
  sleep(1);
  c.start_chief();
  c.wait_for("\"event\":\"place\",\"claimed\":256,\"restored\":0", 0);
  c.check_end();
}

TEST_CASE("after all processes are killed, the same commands resume from the newest checkpoint",
          "[integration]") {
  Cluster c;
  c.wait_for("\"event\":\"published\"", 1);
  for (auto* all : {&c.chief, &c.ps[0], &c.workers[0], &c.ps[1], &c.workers[1]}) c.kill9(*all);
  const size_t published = c.count("\"event\":\"published\"");
  c.start_chief();
  for (int i = 0; i < 2; ++i) c.start_ps(i);
  for (int i = 0; i < 2; ++i) c.start_worker(i);
  c.wait_for("\"event\":\"adopt\"", 2);
  c.check_end();
  CHECK(published >= 2);
}

TEST_CASE("a second chief in a folder names the first one; with --takeover the first one ends",
          "[integration]") {
  Cluster c;
  c.wait_for("\"event\":\"ended\"", 0);
  const Ended second =
      Program("downpour-chief", {c.dir / "job.toml", "--bind", free_address()}, c.dir.path())
          .wait(20);
  CHECK(second.status == 69);
  CHECK(second.err.find("another chief runs the job in this folder (host ") != std::string::npos);
  CHECK(second.err.find("pid " + std::to_string(c.chief->pid())) != std::string::npos);
  CHECK(second.err.find("--takeover") != std::string::npos);
  // The first chief is paused, another one takes over the run, and the first one detects that when
  // it continues.
  c.chief->signal(SIGSTOP);
  Program newer("downpour-chief", {c.dir / "job.toml", "--bind", free_address(), "--takeover"},
                c.dir.path());
  c.wait_for("\"event\":\"start\"", 1);
  c.chief->signal(SIGCONT);
  const Ended zombie = c.chief->wait(20);
  CHECK(zombie.status == 69);
  CHECK(zombie.err.find("has taken over this run") != std::string::npos);
}

}  // namespace
}  // namespace downpour::testing
