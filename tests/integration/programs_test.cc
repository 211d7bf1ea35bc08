// Programs as sources, with real processes. The weights of the counter model show how often each
// row was applied.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/arrays.h"
#include "tests/support/counter_rows.h"
#include "tests/support/lines.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

constexpr int kRows = 10'000;
constexpr int kEpochs = 2;

/// Makes a job whose source is a shell script. In it, `sh rows.sh FROM TO` writes the rows FROM to
/// TO - 1.
void make_job(const ScratchDir& dir, const std::string& script, const std::string& source,
              int input_workers = 0) {
  std::string all;
  for (int i = 0; i < kRows; ++i) all += counter_row(i);
  dir.write("all.svm", all);
  dir.write("rows.sh",
            "awk -v a=$1 -v b=$2 'BEGIN { for (i = a; i < b; ++i) print \"1073741824 \" 1000000 + "
            "i \":1\" }'\n");
  dir.write("make.sh", script);
  dir.write(
      "job.toml",
      "run_dir = \"run\"\npartitions = 16\n"
      "data = { format = \"libsvm\", shuffle = \"off\", source = { exec = [\"sh\", \"make.sh\"], " +
          source + " } }\n" + counter_model() + "train = { epochs = " + std::to_string(kEpochs) +
          ", batch_size = 48, reduction = \"sum\" }\n"
          "cluster = { ps = 2, workers = 4, input_workers = " +
          std::to_string(input_workers) + " }\n");
}

/// Returns the workers that have received a lease.
std::set<int> workers_of(const ScratchDir& dir) {
  std::set<int> workers;
  std::ifstream in(dir / "run/events.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "lease") workers.insert(event["worker"].get<int>());
  }
  return workers;
}

std::vector<std::string> train(const ScratchDir& dir, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"train", dir / "job.toml", "--log-format", "json",
                                        "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("a program's epoch is read once for four workers, and each row counts once",
          "[integration]") {
  const std::string source = GENERATE("records = 10000", "replay = \"epoch\"");
  CAPTURE(source);
  const ScratchDir dir;
  make_job(dir, "echo run >> runs\nsh rows.sh 0 10000\n", source);
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  CHECK(lines_of(read_text(dir / "runs")).size() == kEpochs);
  const Ended looked =
      Program("downpour", {"data", "count", dir / "job.toml"}, dir.path()).wait(20);
  CHECK(looked.status == 64);
  CHECK_THAT(looked.err,
             Catch::Matchers::Contains("the source of this job is a program, not files"));
}

TEST_CASE("an input process runs a program once per epoch and feeds all workers at the same time",
          "[integration]") {
  const std::string source = GENERATE("records = 10000", "replay = \"epoch\"");
  CAPTURE(source);
  const ScratchDir dir;
  make_job(dir, "echo run >> runs\nsh rows.sh 0 5000\nsleep 1\nsh rows.sh 5000 10000\n", source, 1);
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  CHECK(lines_of(read_text(dir / "runs")).size() == kEpochs);
  CHECK(workers_of(dir) == std::set<int>{0, 1, 2, 3});
}

TEST_CASE(
    "an epoch of an endless program has the selected records, for all workers, with one run of the "
    "program",
    "[integration]") {
  const int input_workers = GENERATE(0, 1);
  const ScratchDir dir;
  make_job(dir,
           "echo run >> runs\nsh rows.sh 0 5000\nsleep 1\nsh rows.sh 5000 10000\n"
           "while :; do echo 0 7:1; done\n",
           "skip = 1000, take = 9000, shard = { count = 2, index = 0 }", input_workers);
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{0, 5500}, {kEpochs, 4500}});
  CHECK(lines_of(read_text(dir / "runs")).size() == kEpochs);
  const auto done = nlohmann::json::parse(trained.out);
  for (const auto& account : done["accounts"]) CHECK(account["applied"] == 4500);
  if (input_workers > 0) CHECK(workers_of(dir) == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("an input process feeds arrays that a program writes to all workers", "[integration]") {
  const ScratchDir dir;
  std::filesystem::create_directory(dir / "arrays");
  const auto write = [&](const std::string& name, int begin, int end) {
    std::vector<int64_t> features;
    for (int i = begin; i < end; ++i) features.push_back(1'000'000 + i);
    const std::string rows = std::to_string(end - begin);
    dir.write(name + "features.npy", npy("'<i8'", "(" + rows + ",)", bytes_of(features)));
    dir.write(name + "label.npy",
              floats_npy(std::vector<float>(features.size(), 0x1p30F), "(" + rows + ",)"));
  };
  std::string script = "echo run >> runs\n";
  for (int i = 0; i < kRows; i += 700) {
    const std::string name = "chunk" + std::to_string(i);
    write(name, i, std::min(i + 700, kRows));
    script += "cat " + name + "features.npy " + name + "label.npy\n";
    if (i == 4900) script += "sleep 1\n";
  }
  write("arrays/", 0, kRows);
  dir.write("make.sh", script);
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data.format = \"npy\"\ndata.source = { exec = [\"sh\", \"make.sh\"], take = 9900 }\n"
            "data.fields = { label = {}, features = { type = \"int64\", transform = "
            "[\"identity\"] } }\n" +
                counter_model() + "train = { epochs = " + std::to_string(kEpochs) +
                ", batch_size = 48, reduction = \"sum\" }\n"
                "cluster = { ps = 2, workers = 4, input_workers = 1 }\n");
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"arrays"}) == std::map<int, int>{{0, 100}, {kEpochs, 9900}});
  CHECK(lines_of(read_text(dir / "runs")).size() == kEpochs);
  CHECK(workers_of(dir) == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("the summary shows that a job waits for a slow program", "[integration]") {
  const ScratchDir dir;
  make_job(dir, "sh rows.sh 0 5000\nsleep 2.5\nsh rows.sh 5000 10000\n", "records = 10000");
  const Ended trained =
      Program("downpour",
              {"train", dir / "job.toml", "--epochs", "1", "--workers", "1", "--verbose"},
              dir.path())
          .wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.err,
             Catch::Matchers::Contains("read/s") && Catch::Matchers::Contains("bound by"));
  const auto number_after = [&](const std::string& text) {
    const size_t at = trained.out.find(text);
    REQUIRE(at != std::string::npos);
    return std::stoi(trained.out.substr(at + text.size()));
  };
  CHECK(number_after(" waiting for ps and ") > 60);  // % of the time, waiting for input
  CHECK(number_after("their queues of batches were ") < 40);
}

TEST_CASE("the generator examples train", "[integration]") {
  for (const auto& [example, records] :
       {std::pair{"generator", 200'000U}, std::pair{"stateful-generator", 100'000U}}) {
    INFO(example);
    const ScratchDir dir;
    const std::string job = std::string(DP_SOURCE_DIR) + "/docs/examples/" + example + ".toml";
    const Ended trained = Program("downpour",
                                  {"train", job, "--set", "run_dir=" + (dir / "run"),
                                   "--log-format", "json", "--quiet"},
                                  dir.path())
                              .wait(120);
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    // The `records` of the summary count computed records. On a slow machine a backup lease can add
    // to them, so this test uses the accounts.
    uint64_t applied = 0;
    const auto done = nlohmann::json::parse(trained.out);
    for (const auto& account : done["accounts"]) applied += account["applied"].get<uint64_t>();
    CHECK(applied == records);
  }
}

TEST_CASE("a program with replay = shard runs once per shard, and each row counts once",
          "[integration]") {
  const ScratchDir dir;
  make_job(dir,
           "echo $DOWNPOUR_EPOCH $DOWNPOUR_SHARD_BEGIN >> runs\nsh rows.sh $DOWNPOUR_SHARD_BEGIN "
           "$DOWNPOUR_SHARD_END\n",
           "replay = \"shard\", records = 10000");
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  const auto runs = lines_of(read_text(dir / "runs"));
  CHECK(std::set<std::string>(runs.begin(), runs.end()).size() == runs.size());
  CHECK(runs.size() == size_t(kEpochs) * ((kRows + 4 * 48 - 1) / (4 * 48)));
}

namespace {

/// Trains, and kills the process that reads the program after some rows. The script writes the id
/// of that process to the file `parent`.
Ended train_with_a_kill(const ScratchDir& dir, const std::vector<std::string>& more = {}) {
  Program training("downpour", train(dir, more), dir.path());
  for (int i = 0; i < 400 && lines_of(read_text(dir / "parent")).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  const auto parents = lines_of(read_text(dir / "parent"));
  REQUIRE(!parents.empty());
  ::kill(std::stoi(parents[0]), SIGKILL);
  return training.wait(120);
}

}  // namespace

TEST_CASE(
    "when the process that reads a program dies, another one reads it again, and each row counts "
    "once",
    "[integration]") {
  const int input_workers = GENERATE(0, 1);
  const std::string source = GENERATE("records = 10000", "replay = \"epoch\"");
  CAPTURE(input_workers, source);
  const ScratchDir dir;
  make_job(dir,
           "sh rows.sh 0 5000\nif [ ! -e parent ]; then sleep 0.5; echo $PPID > parent; sleep 10; "
           "fi\nsh rows.sh 5000 10000\n",
           source, input_workers);
  const Ended trained = train_with_a_kill(dir);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  const auto done = nlohmann::json::parse(trained.out);
  CHECK(done[input_workers == 0 ? "workers_lost" : "restarts"] >= 1);
}

TEST_CASE("replicas train each row of a program once, also if a worker that reads it dies",
          "[integration]") {
  const std::string mode = GENERATE("sync", "local");
  const std::string source =
      GENERATE("replay = \"shard\", records = 10000", "records = 10000", "replay = \"epoch\"");
  CAPTURE(mode, source);
  const ScratchDir dir;
  make_job(dir,
           "echo $DOWNPOUR_REPLICAS >> replicas\n"
           "a=${DOWNPOUR_SHARD_BEGIN:-0}; b=${DOWNPOUR_SHARD_END:-10000}; c=$(((a + b) / 2))\n"
           "sh rows.sh $a $c\n"
           "if mkdir once 2> /dev/null; then sleep 0.5; echo $PPID > parent; sleep 4; fi\n"
           "sh rows.sh $c $b\n",
           source);
  const Ended trained =
      train_with_a_kill(dir, {"--workers", "2", "--set", "train.mode=" + mode, "--set",
                              "train.replicas=4", "--set", "train.checkpoint.every=50"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  if (mode == "sync")  // in local training, a row moves by its share of the mean
    CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  CHECK(lines_of(read_text(dir / "replicas"))[0] == "4");
  const auto done = nlohmann::json::parse(trained.out);
  CHECK(done["workers_lost"] >= 1);
  for (const auto& account : done["accounts"]) CHECK(account["applied"] == kRows);
}

TEST_CASE("an input process runs a program once per epoch for all replicas", "[integration]") {
  const std::string source = GENERATE("records = 10000", "replay = \"epoch\"");
  CAPTURE(source);
  const ScratchDir dir;
  make_job(dir, "echo run >> runs\nsh rows.sh 0 10000\n", source, 1);
  const Ended trained =
      Program("downpour", train(dir, {"--set", "train.mode=sync", "--set", "train.replicas=20"}),
              dir.path())
          .wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(rows_by_count(dir, {"all.svm"}) == std::map<int, int>{{kEpochs, kRows}});
  CHECK(lines_of(read_text(dir / "runs")).size() == kEpochs);
  CHECK(workers_of(dir) == std::set<int>{0, 1, 2, 3});
}

TEST_CASE("a program that writes other records the second time ends the job as not replayable",
          "[integration]") {
  const int input_workers = GENERATE(0, 1);
  const std::string source = GENERATE("records = 10000", "replay = \"epoch\"");
  CAPTURE(input_workers, source);
  const ScratchDir dir;
  make_job(
      dir,
      "if [ ! -e parent ]; then sh rows.sh 0 5000; sleep 0.5; echo $PPID > parent; sleep 10; fi\n"
      "sh rows.sh 5000 10000\nsh rows.sh 0 5000\n",
      source, input_workers);
  const Ended trained = train_with_a_kill(dir);
  CHECK(trained.status != 0);
  CHECK_THAT(trained.err, Catch::Matchers::Contains("the input is not replayable"));
}

TEST_CASE("the error of a failed program contains what the program wrote to stderr",
          "[integration]") {
  const ScratchDir dir;
  make_job(dir, "sh rows.sh 0 100\necho the database is gone >&2\nexit 7\n", "replay = \"epoch\"");
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(120);
  CHECK(trained.status != 0);
  CHECK_THAT(trained.err,
             Catch::Matchers::Contains("the program ended with status 7: the database is gone"));
}

TEST_CASE("a worker started by hand runs a program only with --allow-exec", "[integration]") {
  for (const bool allowed : {false, true}) {
    const ScratchDir dir;
    make_job(dir, "echo run >> runs\nsh rows.sh 0 10000\n", "records = 10000");
    const std::string address =
        "127.0.0.1:" + std::to_string(20'000 + (::getpid() * 2 + allowed) % 20'000);
    Program chief("downpour-chief",
                  {dir / "job.toml", "--bind", address, "--set", "cluster.ps=1", "--set",
                   "cluster.workers=1"},
                  dir.path());
    Program ps("downpour-ps", {"--chief", address, "--keys", dir / "run/keys"}, dir.path());
    std::vector<std::string> arguments = {"--chief", address, "--keys", dir / "run/keys"};
    if (allowed) arguments.emplace_back("--allow-exec");
    Program worker("downpour-worker", arguments, dir.path());
    const Ended refused = worker.wait(60);
    INFO(refused.err);
    if (allowed) {
      CHECK(refused.status == 0);
      CHECK(chief.wait(60).status == 0);
      CHECK(lines_of(read_text(dir / "runs")).size() == kEpochs);
    } else {
      CHECK(refused.status == 77);
      CHECK_THAT(refused.err, Catch::Matchers::Contains("--allow-exec"));
      CHECK(lines_of(read_text(dir / "runs")).empty());
      chief.signal(SIGTERM);
    }
  }
}

TEST_CASE(
    "records that a program writes are trained once each, and the program runs once per shard",
    "[integration]") {
  const ScratchDir dir;
  std::string raw, kept;
  int rows = 0;
  for (int i = 0; i < kRows; ++i) {
    raw += std::to_string(i) + "\n";
    if (i % 4 == 0) continue;
    kept += counter_row(i);
    ++rows;
  }
  dir.write("raw.txt", raw);
  dir.write("kept.svm", kept);
  dir.write("counters.sh",
            "case $DOWNPOUR_PURPOSE in predict) exec cat;; esac\n"
            "echo $DOWNPOUR_EPOCH >> runs\n"
            "exec awk '{ print $1 % 4 ? \"1073741824 \" 1000000 + $1 \":1\" : \"\" }'\n");
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { format = \"libsvm\", source = \"raw.txt\", shard_records = 1000, program = "
            "[\"sh\", \"counters.sh\"] }\n" +
                counter_model() + "train = { epochs = " + std::to_string(kEpochs) +
                ", batch_size = 48, reduction = \"sum\" }\n"
                "cluster = { ps = 2, workers = 3 }\n");
  Program trainer("downpour", train(dir), dir.path());
  const Ended trained = trainer.wait(120);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  const auto summary = nlohmann::json::parse(trained.out);
  for (const auto& account : summary["accounts"]) {
    CHECK(account["read"] == kRows);
    CHECK(account["applied"] == rows);
    CHECK(account["filtered"] == kRows - rows);
  }
  CHECK(rows_by_count(dir, {"kept.svm"}) == std::map<int, int>{{kEpochs, rows}});
  CHECK(lines_of(read_text(dir / "runs")).size() >= kEpochs * 9);

  // A run folder may come from another user, so its programs start only with --allow-exec.
  dir.write("counters.sh", "touch started\nexec cat\n");
  for (const char* verb : {"predict", "eval"}) {
    const Ended refused =
        Program("downpour", {verb, dir / "run", "--data", dir / "kept.svm"}, dir.path()).wait(60);
    CHECK(refused.status == 77);
    CHECK_THAT(refused.err, Catch::Matchers::Contains("starts a program on this machine: sh"));
    CHECK_THAT(refused.err, Catch::Matchers::Contains("--allow-exec"));
  }
  CHECK_FALSE(std::filesystem::exists(dir / "started"));

  dir.write("counters.sh", "sed 3d\n");
  std::vector<std::string> again = train(dir);
  again.push_back("--fresh");
  const Ended failed = Program("downpour", again, dir.path()).wait(120);
  CHECK(failed.status == 65);
  CHECK_THAT(failed.err, Catch::Matchers::Contains("the program wrote"));
  CHECK_THAT(failed.err, Catch::Matchers::Contains("one line for each that it reads"));
}

TEST_CASE(
    "a program receives the purpose of its records: training, evaluation, or learning of "
    "parameters",
    "[integration]") {
  const ScratchDir dir;
  std::string rows;
  for (int i = 0; i < 600; ++i) rows += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  dir.write("rows.csv", rows);
  dir.write("told.sh", "echo $DOWNPOUR_PURPOSE $DOWNPOUR_EPOCH >> told\nexec cat\n");
  dir.write("job.toml",
            "run_dir = \"run\"\n[data]\nsource = \"rows.csv\"\nformat = \"csv\"\n"
            "program = [\"sh\", \"told.sh\"]\ncolumns = [\"x\", \"label\"]\n"
            "fields = { x = { transform = [\"standardize\"] }, label = {} }\n"
            "[model]\npreset = \"logistic_regression\"\ntarget = \"label\"\n"
            "[train]\nepochs = 2\nbatch_size = 32\n[eval]\nholdout = 0.2\n");
  const Ended trained = Program("downpour", train(dir), dir.path()).wait(60);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  std::map<std::string, int> told;
  for (const std::string& line : lines_of(read_text(dir / "told"))) ++told[line];
  CHECK(told.size() == 3);
  CHECK(told["train 0"] > 0);
  CHECK(told["train 0"] == told["train 1"]);
  CHECK(told["eval 0"] > told["train 0"]);  // evaluations, and learning before training
}

}  // namespace downpour::testing
