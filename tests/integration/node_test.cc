// `downpour node`: the processes of a cluster that TF_CONFIG describes.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/counter_rows.h"
#include "tests/support/free_address.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;
constexpr int kRows = 640;
constexpr int kEpochs = 2;  // so that a process may start after the end of the job

void make_job(const ScratchDir& dir, int epochs = kEpochs, const std::string& data = "") {
  dir.write("rows.svm", counter_rows(kRows));
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = \"rows.svm\", format = \"libsvm\"" +
                data + " }\n" + counter_model() + "train = { epochs = " + std::to_string(epochs) +
                ", batch_size = 16, reduction = \"sum\", checkpoint = { every = 400 } }\n");
  const Ended keys = Program("downpour", {"keys", dir / "keys"}, dir.path()).wait();
  REQUIRE(keys.status == 0);
}

std::unique_ptr<Program> start(const ScratchDir& dir, const std::string& name, Json config,
                               const std::string& type, int index) {
  config["task"] = {{"type", type}, {"index", index}};
  ::setenv("TF_CONFIG", config.dump().c_str(), 1);
  const std::string folder = dir / name;
  ::mkdir(folder.c_str(), 0700);
  auto program = std::make_unique<Program>(
      "downpour",
      std::vector<std::string>{"node", dir / "job.toml", "--keys", dir / "keys", "--allow-exec"},
      folder);
  ::unsetenv("TF_CONFIG");
  return program;
}

/// Returns the processes whose command line contains all of these texts.
std::vector<pid_t> processes(const std::vector<std::string>& texts) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = pid_t(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid <= 0) continue;
    const std::string line = read_text(entry.path().string() + "/cmdline");
    const auto has = [&](const std::string& text) { return line.find(text) != std::string::npos; };
    if (std::all_of(texts.begin(), texts.end(), has)) found.push_back(pid);
  }
  return found;
}

void wait_for_checkpoint(const ScratchDir& dir) {
  const std::string events = dir / "run/events.jsonl";
  for (int i = 0; i < 30'000 && read_text(events).find("\"published\"") == std::string::npos; ++i)
    ::usleep(1000);
}

/// Waits until no process has all of these texts in its command line. A ps or worker whose chief is
/// gone waits for another one for a while.
bool have_ended(const std::vector<std::string>& texts) {
  for (int i = 0; i < 9000 && !processes(texts).empty(); ++i) ::usleep(10'000);
  return processes(texts).empty();
}

void check_trained(const ScratchDir& dir, std::map<std::string, std::unique_ptr<Program>>& nodes) {
  for (auto& [name, node] : nodes) {
    const Ended ended = node->wait(120);
    INFO(name << ": " << ended.err);
    CHECK(ended.status == 0);
  }
  CHECK(rows_by_count(dir, {"rows.svm"}) == std::map<int, int>{{kEpochs, kRows}});
}

}  // namespace

TEST_CASE("a chief, ps and workers start from TF_CONFIG, also if the run is finished",
          "[integration]") {
  const ScratchDir dir;
  make_job(dir);
  const Json config = {{"cluster",
                        {{"chief", {free_address()}},
                         {"ps", {free_address(), free_address()}},
                         {"worker", {free_address(), free_address()}},
                         {"evaluator", {"somewhere:1"}}}}};
  for (int starts = 0; starts < 2; ++starts) {
    CAPTURE(starts);
    std::map<std::string, std::unique_ptr<Program>> nodes;
    nodes["chief"] = start(dir, "chief", config, "chief", 0);
    for (const int i : {0, 1})
      nodes["ps" + std::to_string(i)] = start(dir, "ps" + std::to_string(i), config, "ps", i);
    for (const int i : {0, 1})
      nodes["worker" + std::to_string(i)] =
          start(dir, "worker" + std::to_string(i), config, "worker", i);
    nodes["evaluator"] = start(dir, "evaluator", config, "evaluator", 0);
    check_trained(dir, nodes);
  }
}

TEST_CASE("worker 0 of a cluster without a chief also runs the chief", "[integration]") {
  const ScratchDir dir;
  make_job(dir, kEpochs, ", program = [\"cat\"]");  // both workers start it
  const Json config = {
      {"cluster", {{"ps", {free_address()}}, {"worker", {free_address(), free_address()}}}}};
  std::map<std::string, std::unique_ptr<Program>> nodes;
  nodes["ps0"] = start(dir, "ps0", config, "ps", 0);
  for (const int i : {0, 1})
    nodes["worker" + std::to_string(i)] =
        start(dir, "worker" + std::to_string(i), config, "worker", i);
  check_trained(dir, nodes);
}

TEST_CASE("workers alone also hold the variables, and train synchronously", "[integration]") {
  const ScratchDir dir;
  make_job(dir);
  const Json config = {{"cluster", {{"worker", {free_address(), free_address()}}}}};
  std::map<std::string, std::unique_ptr<Program>> nodes;
  for (const int i : {0, 1})
    nodes["worker" + std::to_string(i)] =
        start(dir, "worker" + std::to_string(i), config, "worker", i);
  check_trained(dir, nodes);
  const std::string job = read_text(dir / "run/job.toml");
  CHECK(job.find("mode = \"sync\"") != std::string::npos);
  CHECK(job.find("replicas = 2") != std::string::npos);
  CHECK(nodes["worker0"]->saw("train.mode is sync: the job does not set it"));
}

TEST_CASE("worker 0 is started again with its ps", "[integration]") {
  const ScratchDir dir;
  make_job(dir, /*epochs=*/200);
  const Json config = {{"cluster", {{"worker", {free_address(), free_address()}}}}};
  std::map<std::string, std::unique_ptr<Program>> nodes;
  for (const int i : {0, 1})
    nodes["worker" + std::to_string(i)] =
        start(dir, "worker" + std::to_string(i), config, "worker", i);
  wait_for_checkpoint(dir);
  CHECK(processes({"downpour-ps", dir / "keys"}).empty());
  std::vector<pid_t> workers = processes({"downpour-worker", "--with-ps", dir / "keys"});
  std::erase(workers, nodes["worker1"]->pid());
  REQUIRE(workers.size() == 1);
  ::kill(workers[0], SIGKILL);
  for (auto& [name, node] : nodes) {
    const Ended ended = node->wait(120);
    INFO(name << ": " << ended.err);
    CHECK(ended.status == 0);
  }
  CHECK(read_text(dir / "run/events.jsonl").find("\"ps_lost\"") != std::string::npos);
  CHECK(rows_by_count(dir, {"rows.svm"}) == std::map<int, int>{{200, kRows}});
}

TEST_CASE("a worker 0 that always dies stops its node with a checkpoint", "[integration]") {
  const ScratchDir dir;
  make_job(dir, /*epochs=*/100'000);
  const Json config = {{"cluster", {{"worker", {free_address()}}}}};
  const auto node = start(dir, "worker0", config, "worker", 0);
  wait_for_checkpoint(dir);
  const std::vector<std::string> worker = {"downpour-worker", dir / "keys"};
  pid_t last = 0;
  for (int kills = 0, tries = 0; kills < 6 && tries < 3000; ++tries) {
    ::usleep(10'000);
    const std::vector<pid_t> found = processes(worker);
    // Until it runs its program, a child has the command line of the keeper.
    if (found.size() != 1 || found[0] == last) continue;
    ::kill(last = found[0], SIGKILL);
    ++kills;
  }
  const Ended ended = node->wait(60);
  INFO(ended.err);
  CHECK(ended.status == 128 + SIGTERM);
  CHECK(ended.err.find("also after 5 restarts") != std::string::npos);
  CHECK(have_ended({dir / "keys"}));
  CHECK(ended.err.find("stopped") != std::string::npos);
}

TEST_CASE("the processes that node has started end with the chief, also if it is killed",
          "[integration]") {
  for (const int number : {SIGTERM, SIGKILL}) {
    const ScratchDir dir;
    make_job(dir, /*epochs=*/100'000);
    const Json config = {{"cluster", {{"worker", {free_address()}}}}};
    const auto node = start(dir, "worker0", config, "worker", 0);
    wait_for_checkpoint(dir);
    CHECK_FALSE(processes({"downpour-worker", "--with-ps", dir / "keys"}).empty());
    node->signal(number);
    const Ended ended = node->wait(60);
    INFO(ended.err);
    CHECK(ended.status == 128 + number);
    CHECK(have_ended({dir / "keys"}));
  }
}

TEST_CASE("a second signal ends a worker at once while its ps still waits", "[integration]") {
  const ScratchDir dir;
  make_job(dir, /*epochs=*/100'000);
  const std::string address = free_address();
  Program chief(
      "downpour-chief",
      {dir / "job.toml", "--bind", address, "--keys", dir / "keys", "--set", "cluster.workers=2"},
      dir.path());
  const std::vector<std::string> member = {"--chief", address, "--keys", dir / "keys"};
  std::vector<std::string> with_ps = member;
  with_ps.emplace_back("--with-ps");
  Program first("downpour-worker", with_ps, dir.path() + "/keys");
  Program second("downpour-worker", member, dir.path());
  wait_for_checkpoint(dir);
  first.signal(SIGTERM);  // no other ps can take the partitions, so this one stays
  ::usleep(1'000'000);
  first.signal(SIGTERM);
  const Ended ended = first.wait(10);
  CHECK_FALSE(ended.timed_out);
  CHECK(ended.status == 128 + SIGTERM);
}

TEST_CASE("the flags of a ps in a worker must fit together", "[integration]") {
  const ScratchDir dir;
  const auto refused = [&](std::vector<std::string> flags, const std::string& text) {
    flags.insert(flags.begin(), {"--chief", "127.0.0.1:1"});
    const Ended ended = Program("downpour-worker", flags, dir.path()).wait();
    CHECK(ended.status == 64);
    CAPTURE(ended.err);
    CHECK(ended.err.find(text) != std::string::npos);
  };
  dir.write("worker.key", "");
  refused({"--with-ps", "--keys", dir / "worker.key"}, "give the folder that has both keys");
  refused({"--with-ps", "--insecure", "--role", "input"}, "an input process has no ps");
  refused({"--insecure", "--ps-threads", "2"}, "add --with-ps");
}

TEST_CASE("a worker with a ps reports once that the chief does not answer", "[integration]") {
  const ScratchDir dir;
  const Ended ended =
      Program("downpour-worker",
              {"--chief", free_address(), "--insecure", "--with-ps", "--connect-timeout", "1"},
              dir.path())
          .wait();
  CHECK(ended.status == 69);
  const size_t said = ended.err.find("error:");
  REQUIRE(said != std::string::npos);
  CHECK(ended.err.find("error:", said + 1) == std::string::npos);  // once, not twice
}

TEST_CASE("one --set can't change the threads of a ps in a worker", "[integration]") {
  const ScratchDir dir;
  make_job(dir);
  ::setenv("TF_CONFIG", R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}})", 1);
  const Ended ended =
      Program("downpour", {"node", dir / "job.toml", "--set", "cluster.ps_threads=2"}, dir.path())
          .wait();
  ::unsetenv("TF_CONFIG");
  CHECK(ended.status == 64);
  CHECK(ended.err.find("--set cluster.ps_threads=2") != std::string::npos);
}

TEST_CASE("a wrong TF_CONFIG ends the process with the part that is wrong", "[integration]") {
  const ScratchDir dir;
  make_job(dir);
  ::setenv("TF_CONFIG", R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":4}})", 1);
  const Ended ended = Program("downpour", {"node", dir / "job.toml"}, dir.path()).wait();
  ::unsetenv("TF_CONFIG");
  CHECK(ended.status == 78);
  CHECK(ended.err.find("index 4 is not in cluster.ps") != std::string::npos);
  CHECK(ended.err.find("TF_CONFIG: task.index") != std::string::npos);
}

TEST_CASE("without TF_CONFIG the job trains in one process", "[integration]") {
  const ScratchDir dir;
  make_job(dir);
  const Ended ended = Program("downpour", {"node", dir / "job.toml"}, dir.path()).wait(120);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(rows_by_count(dir, {"rows.svm"}) == std::map<int, int>{{kEpochs, kRows}});
}

}  // namespace downpour::testing
