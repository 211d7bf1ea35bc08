// Real input processes: they read what the workers would have read.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/clicks.h"
#include "tests/support/compressed.h"
#include "tests/support/counter_rows.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

/// Makes counter rows and a job for them. After E epochs every weight is E.
void make_counter(const ScratchDir& dir, int rows, int epochs, const std::string& cluster) {
  std::string all;
  for (int i = 0; i < rows; ++i) all += counter_row(i);
  dir.write("all.svm", all);
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = \"all.svm\", format = \"libsvm\", shard_records = 500 "
            "}\n" +
                counter_model() + "train = { epochs = " + std::to_string(epochs) +
                ", batch_size = 48, reduction = \"sum\" }\n" + cluster);
}

Json train(const ScratchDir& dir, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"train", dir / "job.toml", "--log-format", "json",
                                        "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended ended = Program("downpour", arguments, dir.path()).wait(180);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return Json::parse(ended.out);
}

/// Returns how many bytes of files the processes of a role have read.
uint64_t read_by(const Json& done, const std::string& role) {
  uint64_t bytes = 0;
  for (const Json& process : done["processes"])
    if (process["role"] == role) bytes += process["read_bytes"].get<uint64_t>();
  return bytes;
}

void check_balanced(const Json& done, int64_t rows, size_t epochs) {
  REQUIRE(done["accounts"].size() == epochs);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == rows);
    CHECK(account["applied"] == rows);
  }
}

/// Returns the input processes among the children of `parent`.
std::vector<pid_t> inputs_of(const Program& parent) {
  std::vector<pid_t> found;
  for (const pid_t pid : parent.children("downpour-worker")) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
    const std::string line((std::istreambuf_iterator<char>(in)), {});
    if (line.find("--role") != std::string::npos) found.push_back(pid);
  }
  return found;
}

/// Waits until a shard has ended, then kills the only input process.
void kill_input(const Program& training, const ScratchDir& dir) {
  std::vector<pid_t> inputs;
  for (int i = 0; i < 10'000 && inputs.empty(); ++i) {
    if (read_text(dir / "run/events.jsonl").find("\"event\":\"ended\"") != std::string::npos)
      inputs = inputs_of(training);
    usleep(1000);
  }
  REQUIRE(inputs.size() == 1);
  kill(inputs[0], SIGKILL);
}

}  // namespace

TEST_CASE("two workers with two input processes over tcp apply every record once and read no file",
          "[integration]") {
  const ScratchDir dir;
  make_counter(dir, 20'000, 2,
               "cluster = { workers = 2, input_workers = 2, transport = \"tcp\" }\n");
  const Json with = train(dir);
  check_balanced(with, 20'000, 2);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{2, 20'000}});
  const auto bytes = uint64_t(read_text(dir / "all.svm").size());
  CHECK(read_by(with, "worker") == 0);
  CHECK(read_by(with, "input") >= 2 * bytes * 9 / 10);  // the last heartbeats may be late
  int inputs = 0;
  for (const Json& process : with["processes"]) {
    if (process["role"] != "input") continue;
    ++inputs;
    CHECK(process["read_bytes"] > bytes / 4);  // both input processes have read a share
    CHECK(process["sent_bytes"] > 0);
    CHECK(process["cpu_seconds"] > 0);
    CHECK(process["rss_bytes_max"] > 0);
  }
  CHECK(inputs == 2);
  const Json without = train(dir, {"--fresh", "--input-workers", "0"});
  CHECK(with["accounts"].size() == without["accounts"].size());
  for (size_t e = 0; e < with["accounts"].size(); ++e) {
    for (const char* key : {"read", "applied", "filtered", "skipped", "dropped", "quarantined"})
      CHECK(with["accounts"][e][key] == without["accounts"][e][key]);
  }
}

TEST_CASE(
    "with one batch in flight the model is the same bit for bit, with and without input processes",
    "[integration]") {
  const ScratchDir dir;
  write_clicks(dir, 20000);
  dir.write("job.toml",
            "run_dir = \"run\"\n"
            "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 1000, "
            "parallelism = 1 }\n"
            "model = { preset = \"wide_deep\", dim = 4, units = [8] }\n"
            "train = { epochs = 2, batch_size = 100, in_flight = 1 }\n"
            "eval = { holdout = 0.1 }\n");
  const auto trained = [&](const std::string& inputs) {
    // One batch is computed at a time in either case. Kernels split their sums by the data alone,
    // so the number of threads does not matter.
    const Json done = train(dir, {"--fresh", "--transport", "tcp", "--input-workers", inputs});
    CHECK((read_by(done, "worker") == 0) == (inputs != "0"));
    const Ended told =
        Program("downpour", {"predict", dir / "run", "--data", dir / "train.svm"}, dir.path())
            .wait(60);
    REQUIRE(told.status == 0);
    return std::pair(done["evaluations"].dump(), told.out);
  };
  const auto without = trained("0"), with = trained("2");
  CHECK(without.second == with.second);
  const auto outputs = [](const std::string& evaluations) {
    Json all = Json::parse(evaluations);
    for (Json& one : all) one.erase("seconds"), one.erase("wall_seconds");
    return all;
  };
  CHECK(outputs(without.first) == outputs(with.first));
}

TEST_CASE("an input process that is killed inside an epoch loses no record and is restarted",
          "[integration]") {
  const ScratchDir dir;
  make_counter(dir, 200'000, 3, "cluster = { workers = 2, input_workers = 2 }\n");
  Program training("downpour", {"train", dir / "job.toml", "--log-format", "json"}, dir.path());
  const auto ended = [&] {
    const std::string events = read_text(dir / "run/events.jsonl");
    size_t count = 0;
    for (size_t at = 0; (at = events.find("\"event\":\"ended\"", at)) != events.npos; ++at) ++count;
    return count;
  };
  for (size_t kills = 0; kills < 2; ++kills) {
    for (int i = 0; i < 6000 && ended() < 50 + 200 * kills; ++i) usleep(5000);
    std::vector<pid_t> inputs;
    for (int i = 0; i < 2000 && inputs.size() < 2; ++i) {
      inputs = inputs_of(training);
      usleep(1000);
    }
    REQUIRE(inputs.size() == 2);
    kill(inputs[kills], SIGKILL);
  }
  const Ended all = training.wait(180);
  INFO(all.err);
  REQUIRE(all.status == 0);
  const Json done = Json::parse(all.out);
  check_balanced(done, 200'000, 3);
  CHECK(done["restarts"] == 2);
  CHECK(done["workers_lost"] == 0);
  CHECK(all.err.find("input ") != std::string::npos);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{3, 200'000}});
}

TEST_CASE("workers read for themselves when no input process is left", "[integration]") {
  const ScratchDir dir;
  make_counter(dir, 200'000, 2, "cluster = { workers = 2, input_workers = 1, restarts = 0 }\n");
  Program training("downpour", {"train", dir / "job.toml", "--log-format", "json"}, dir.path());
  kill_input(training, dir);
  const Ended all = training.wait(180);
  INFO(all.err);
  REQUIRE(all.status == 0);
  const Json done = Json::parse(all.out);
  check_balanced(done, 200'000, 2);
  CHECK(read_by(done, "worker") > 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{2, 200'000}});
  CHECK(read_text(dir / "run/logs/worker-0.log").find("reads its shards itself") !=
        std::string::npos);
}

TEST_CASE("an input process reads one compressed file once for all workers", "[integration]") {
  const ScratchDir dir;
  make_counter(dir, 100'000, 2, "cluster = { workers = 3, input_workers = 1 }\n");
  const std::string bytes = gzipped(read_text(dir / "all.svm"));
  dir.write("all.svm.gz", bytes);
  const std::vector<std::string> compressed = {"--set", "data.source=\"all.svm.gz\""};
  const Json done = train(dir, compressed);
  check_balanced(done, 100'000, 2);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{2, 100'000}});
  for (const Json& process : done["processes"]) {
    if (process["role"] == "worker") CHECK(process["records"] > 10'000);
    if (process["role"] == "input")
      CHECK(process["read_bytes"].get<double>() == Approx(2.0 * double(bytes.size())).epsilon(0.1));
  }
  CHECK(read_by(done, "worker") == 0);
  // An input process that dies is restarted. It reads the file from the start and serves the
  // remaining pieces.
  std::vector<std::string> arguments = {"train", dir / "job.toml", "--log-format", "json",
                                        "--fresh"};
  arguments.insert(arguments.end(), compressed.begin(), compressed.end());
  Program training("downpour", arguments, dir.path());
  kill_input(training, dir);
  const Ended all = training.wait(180);
  INFO(all.err);
  REQUIRE(all.status == 0);
  check_balanced(Json::parse(all.out), 100'000, 2);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{2, 100'000}});
}

TEST_CASE("the input process, started by hand, runs the program; the worker may not start it",
          "[integration]") {
  const ScratchDir dir;
  std::string all;
  for (int i = 0; i < 10'000; ++i) all += counter_row(i);
  dir.write("all.svm", all);
  dir.write("make.sh", "echo $PPID >> runs\ncat all.svm\n");
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { format = \"libsvm\", shuffle = \"off\", source = { exec = "
            "[\"sh\", \"make.sh\"], records = 10000 } }\n" +
                counter_model() +
                "train = { epochs = 2, batch_size = 48, reduction = \"sum\" }\n"
                "cluster = { ps = 1, workers = 1, input_workers = 1 }\n");
  const std::string chief_at = "ipc://" + dir / "chief";
  Program chief("downpour-chief", {dir / "job.toml", "--bind", chief_at, "--json"}, dir.path());
  Program ps("downpour-ps", {"--chief", chief_at, "--bind", "ipc://" + dir / "ps"}, dir.path());
  Program worker("downpour-worker", {"--chief", chief_at, "--threads", "1"}, dir.path());
  Program input("downpour-worker",
                {"--role", "input", "--chief", chief_at, "--bind", "ipc://" + dir / "input",
                 "--threads", "1", "--allow-exec"},
                dir.path());
  const pid_t input_pid = input.pid();
  const Ended ended = chief.wait(120);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  check_balanced(Json::parse(ended.out), 10'000, 2);
  CHECK(worker.wait(10).status == 0);
  CHECK(input.wait(10).status == 0);
  CHECK(ps.wait(10).status == 0);
  std::ifstream runs(dir / "runs");
  int parent = 0, count = 0;
  for (; runs >> parent; ++count) CHECK(parent == input_pid);
  CHECK(count == 2);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{2, 10'000}});
}

TEST_CASE("an input process without permission to start the job's program reports that and ends",
          "[integration]") {
  const ScratchDir dir;
  dir.write("make.sh", "echo 1 1:1\n");
  dir.write("job.toml",
            "run_dir = \"run\"\ndata = { format = \"libsvm\", source = { exec = "
            "[\"sh\", \"make.sh\"] } }\n" +
                counter_model());
  const std::string chief_at = "ipc://" + dir / "chief";
  Program chief("downpour-chief", {dir / "job.toml", "--bind", chief_at, "--json"}, dir.path());
  Program input("downpour-worker",
                {"--role", "input", "--chief", chief_at, "--bind", "ipc://" + dir / "input"},
                dir.path());
  const Ended ended = input.wait(30);
  CHECK(ended.status == 77);
  CHECK_THAT(ended.err, Catch::Matchers::Contains("--allow-exec"));
}

TEST_CASE("a bad record that an input process reads ends the job with its place, or is skipped",
          "[integration]") {
  const ScratchDir dir;
  make_counter(dir, 5000, 1, "cluster = { workers = 1, input_workers = 1 }\n");
  dir.write("all.svm", read_text(dir / "all.svm") + "1 3:oops\n");
  const Ended failed = Program("downpour", {"train", dir / "job.toml"}, dir.path()).wait(60);
  CHECK(failed.status == 65);
  CHECK_THAT(failed.err, Catch::Matchers::Contains("all.svm:5001"));
  const Json done = train(dir, {"--fresh", "--set", "data.bad_records=skip"});
  CHECK(done["accounts"][0]["skipped"] == 1);
  CHECK(done["accounts"][0]["applied"] == 5000);
}

TEST_CASE("the number of input processes may change when a run resumes", "[integration]") {
  const ScratchDir dir;
  make_counter(dir, 5000, 1, "cluster = { workers = 1, input_workers = 1 }\n");
  check_balanced(train(dir), 5000, 1);
  check_balanced(train(dir, {"--epochs", "2", "--input-workers", "2"}), 5000, 2);
  check_balanced(train(dir, {"--epochs", "3", "--input-workers", "0"}), 5000, 3);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{3, 5000}});
}

}  // namespace downpour::testing
