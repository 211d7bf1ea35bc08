// Training with real processes and real files, as a user sees it.
#include <algorithm>
#include <filesystem>
#include <sched.h>
#include <signal.h>
#include <sstream>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/env/process.h"
#include "tests/support/clicks.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments,
               double seconds = 120) {
  return Program("downpour", arguments, dir.path()).wait(seconds);
}

// Makes libsvm rows whose labels depend on their fields, and a job for them.
void make_clicks(const ScratchDir& dir, const std::string& more = "", int rows = 20000) {
  write_clicks(dir, rows);
  dir.write("job.toml", clicks_job(2) + "eval = { holdout = 0.1 }\n" + more);
}

Json summary(const Ended& ended) {
  INFO(ended.err);
  REQUIRE(!ended.timed_out);
  REQUIRE(!ended.out.empty());
  return Json::parse(ended.out);
}

void check_balanced(const Json& done, int64_t rows, size_t epochs) {
  REQUIRE(done["accounts"].size() == epochs);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == rows);
    CHECK(account["read"] ==
          account["applied"].get<int64_t>() + account["filtered"].get<int64_t>());
  }
}

double auc(const Json& done) {
  for (const auto& output : done["evaluations"].back()["outputs"].items())
    return output.value()["auc"];
  return 0;
}

const std::vector<std::string> kJson = {"--log-format", "json", "--quiet"};
std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_CASE(
    "the same job gives the same quality in one process, over ipc and over tcp, and every record "
    "counts once",
    "[integration]") {
  const ScratchDir dir;
  make_clicks(dir);
  std::vector<double> reached;
  for (const std::vector<std::string>& cluster :
       {std::vector<std::string>{},
        {"--ps", "2", "--workers", "2"},
        {"--ps", "2", "--workers", "2", "--transport", "tcp"},
        {"--set", "cluster.ps_threads=2"},
        {"--ps", "2", "--workers", "2", "--set", "cluster.ps_threads=2"}}) {
    const Ended ended =
        downpour(dir, with(with({"train", dir / "job.toml", "--fresh"}, kJson), cluster));
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    const Json done = summary(ended);
    CHECK(done["linear_model"].is_null());  // only of a data file without a job
    check_balanced(done, 20000, 2);
    reached.push_back(auc(done));
  }
  CHECK(reached[0] > 0.6);
  // About 2,000 rows are held out. Runs differ only in the order in which batches are applied.
  for (const double other : reached) CHECK(std::abs(reached[0] - other) < 0.01);
}

TEST_CASE("a worker that is killed inside an epoch costs time, but no records", "[integration]") {
  const ScratchDir dir;
  make_clicks(dir, "", 200000);
  Program train(
      "downpour",
      with({"train", dir / "job.toml", "--ps", "2", "--workers", "2", "--set", "train.epochs=3"},
           kJson),
      dir.path());
  kill_worker_with_lease(train, dir);
  const Ended ended = train.wait(180);
  INFO(ended.err);
  CHECK(ended.status == 0);
  const Json done = summary(ended);
  check_balanced(done, 200000, 3);
  CHECK(done["workers_lost"] == 1);
}

TEST_CASE(
    "Ctrl-C saves the state and prints how to resume, and the same command finishes with a "
    "balanced account",
    "[integration]") {
  const ScratchDir dir;
  make_clicks(dir, "", 200000);
  Program train("downpour", {"train", dir / "job.toml", "--set", "train.epochs=10"}, dir.path());
  REQUIRE(train.saw("epoch 1  trained"));
  train.signal(SIGINT);
  const Ended stopped = train.wait(30);
  CHECK(stopped.status == 130);
  CHECK(stopped.out.find("resume with the same command") != std::string::npos);
  const Json done = summary(downpour(dir, with({"train", dir / "job.toml", "--set",
                                                "train.epochs=10", "--ps", "2", "--workers", "1"},
                                               kJson)));
  CHECK(done["code"] == 0);
  check_balanced(done, 200000, 10);
}

TEST_CASE("a finished job reports that, and a changed frozen key is named with both values",
          "[integration]") {
  const ScratchDir dir;
  make_clicks(dir);
  REQUIRE(downpour(dir, {"train", dir / "job.toml"}).status == 0);
  const Ended again = downpour(dir, {"train", dir / "job.toml"});
  CHECK(again.status == 0);
  CHECK(again.out.find("already finished") != std::string::npos);
  CHECK(again.out.find("--epochs 4") != std::string::npos);
  const Ended changed = downpour(dir, {"train", dir / "job.toml", "--set", "train.batch_size=50"});
  CHECK(changed.status == 78);
  CHECK(changed.err.find("`train.batch_size` was 100 and is 50 now") != std::string::npos);
  const Ended more = downpour(dir, {"train", dir / "job.toml", "--epochs", "3"});
  CHECK(more.status == 0);
}

TEST_CASE("train accepts a data file without a job, and stores the job that it chose",
          "[integration]") {
  const ScratchDir dir;
  make_clicks(dir);
  const Ended ended =
      downpour(dir, {"train", dir / "train.svm", "--set", "run_dir='" + dir / "run" + "'"});
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.err.find("libsvm") != std::string::npos);
  CHECK(read_text(dir / "run/job.toml").find("logistic") != std::string::npos);
  const Ended dry = downpour(dir, {"train", dir / "train.svm", "--dry-run"});
  CHECK(dry.status == 0);
  CHECK(dry.out.find("range 0:") != std::string::npos);
  CHECK(dry.out.find("Memory per ps") != std::string::npos);
}

TEST_CASE("training a data file without a job stops early, and eval uses the best epoch",
          "[integration]") {
  const ScratchDir dir;
  // With 10,000 ids per column and only 3,000 rows the model overfits and gets worse.
  REQUIRE(downpour(dir, {"synth", dir / "few.tsv", "--rows", "3000", "--ids", "10000"}).status ==
          0);
  const std::vector<std::string> train = {
      "train", dir / "few.tsv", "--set", "train.epochs=12", "--set", "run_dir=" + (dir / "few")};
  const Ended trained = downpour(dir, with(train, kJson));
  REQUIRE(trained.status == 0);
  const Json done = summary(trained);
  const auto loss = [](const Json& evaluation) {
    return evaluation["outputs"].items().begin().value()["loss"].get<double>();
  };
  const uint32_t best = done["best_epoch"];
  const Json& evaluations = done["evaluations"];
  CHECK(done["stopped_early"] == true);
  CHECK(evaluations.size() == best + 5);
  // The best constant of these records has a logloss near 0.6.
  CHECK(done["linear_model"]["logloss"].get<double>() > 0.3);
  CHECK(done["linear_model"]["logloss"].get<double>() < 1.2);
  CHECK(done["linear_model"]["epochs"] >= 1);
  for (const Json& evaluation : evaluations) CHECK(loss(evaluation) >= loss(evaluations[best - 1]));
  // Evaluates the same records with the checkpoint of the best epoch.
  const Json again = summary(downpour(dir, with({"eval", dir / "few"}, kJson)));
  CHECK(loss(again["evaluations"][0]) == Approx(loss(evaluations[best - 1])).epsilon(1e-6));
  // The newest checkpoint is of the last epoch, which has a higher loss.
  CHECK(loss(evaluations.back()) > 1.001 * loss(evaluations[best - 1]));
  const Ended finished = downpour(dir, with(train, {"--quiet"}));
  CHECK(finished.status == 0);
  CHECK(finished.out.find("already finished") != std::string::npos);
  CHECK(finished.out.find("has not improved for 5 epochs") != std::string::npos);
}

TEST_CASE("the linear model for comparison is evaluated as `eval` says, also with classes",
          "[integration]") {
  const ScratchDir dir;
  std::string train = "x,kind\n", other = train;
  const char* const kinds[] = {"fox", "horse", "mouse"};
  for (int i = 0; i < 3000; ++i) {
    train += std::to_string(i % 300) + "," + kinds[i % 300 / 100] + "\n";
    other += std::to_string(i % 300) + "," + kinds[(i % 300 / 100 + 1) % 3] + "\n";
  }
  dir.write("other.csv", other);
  const auto logloss = [&](const std::vector<std::string>& more) {
    const Ended ended =
        downpour(dir, with(with({"train", dir.write("kinds.csv", train), "--fresh"}, kJson), more));
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return summary(ended)["linear_model"]["logloss"].get<double>();
  };
  CHECK(logloss({}) < 0.9);  // that of the best constant is 1.1
  CHECK(logloss({"--set", "eval={ source = '" + (dir / "other.csv") + "' }"}) > 1.2);
}

TEST_CASE("a plateau reduces the learning rate, also after a stop, and then training ends",
          "[integration]") {
  const ScratchDir dir;
  REQUIRE(downpour(dir, {"synth", dir / "few.tsv", "--rows", "3000", "--ids", "10000"}).status ==
          0);
  const auto train = [&](const std::string& run, const std::string& epochs) {
    return downpour(dir,
                    with({"train", dir / "few.tsv", "--set", "train.epochs=" + epochs, "--set",
                          "run_dir=" + (dir / run), "--set", "eval.early_stop.patience=1", "--set",
                          "optimizer.schedule={ type = \"plateau\", patience = 1, factor = "
                          "0.5, min = 0.25 }"},
                         kJson));
  };
  const Ended whole = train("whole", "40");
  INFO(whole.out << whole.err);
  REQUIRE(whole.status == 0);
  CHECK(summary(whole)["stopped_early"] == true);
  const std::string events = read_text(dir / "whole/events.jsonl");
  CHECK(events.find("the learning rate is now 0.5 times") != std::string::npos);
  CHECK(events.find("the learning rate is now 0.25 times") != std::string::npos);
  CHECK(events.find("\"rate_reductions\":1") != std::string::npos);
  CHECK(events.find("\"rate_reductions\":2") != std::string::npos);
  CHECK(events.find("\"rate_reductions\":3") == std::string::npos);
  // A chief that starts after the last reduction decides from the history of the run.
  const size_t epochs = summary(whole)["evaluations"].size();
  REQUIRE(train("parts", std::to_string(epochs - 1)).status == 0);
  const Ended rest = train("parts", "40");
  REQUIRE(rest.status == 0);
  CHECK(read_text(dir / "parts/events.jsonl").find("\"rate_reductions\":2") != std::string::npos);
}

TEST_CASE("a model that predicts worse than a constant is reported as such", "[integration]") {
  const ScratchDir dir;
  REQUIRE(downpour(dir, {"synth", dir / "few.tsv", "--rows", "3000", "--ids", "10000"}).status ==
          0);
  const std::vector<std::string> wild = {"train", dir / "few.tsv",
                                         "--set", "run_dir=" + (dir / "wild"),
                                         "--set", "optimizer.learning_rate=3"};
  const Ended ended = downpour(dir, with(wild, {"--quiet"}));
  INFO(ended.out << ended.err);
  REQUIRE(ended.status == 0);
  CHECK(ended.out.find("predicts worse than a constant: its logloss") != std::string::npos);
  CHECK(summary(downpour(dir, with(wild, kJson)))["worse_than_constant"].size() == 1);
  const std::vector<std::string> tame = {"train", dir / "few.tsv", "--set",
                                         "run_dir=" + (dir / "tame")};
  CHECK(downpour(dir, with(tame, {"--quiet"})).out.find("worse than a constant") ==
        std::string::npos);
}

TEST_CASE("eval and predict read the saved model and do not change it", "[integration]") {
  const ScratchDir dir;
  make_clicks(dir);
  REQUIRE(downpour(dir, {"train", dir / "job.toml"}).status == 0);
  const std::string before = downpour(dir, {"inspect", dir / "runs/job"}).out;
  CHECK(before.find(", all checksums verified\n") != std::string::npos);
  const Json evaluated =
      summary(downpour(dir, with({"eval", dir / "runs/job", "--data", dir / "train.svm"}, kJson)));
  CHECK(evaluated["evaluations"][0]["records"] == 20000);
  const Ended predicted = downpour(dir, {"predict", dir / "runs/job", "--data", dir / "train.svm"});
  CHECK(predicted.status == 0);
  CHECK(std::count(predicted.out.begin(), predicted.out.end(), '\n') == 20000);
  std::istringstream labelled(read_text(dir / "train.svm"));
  std::string unlabelled, line;
  while (std::getline(labelled, line)) unlabelled += line.substr(line.find(' ') + 1) + "\n";
  const Ended blind =
      downpour(dir, {"predict", dir / "runs/job", "--data", dir.write("new.svm", unlabelled)});
  CHECK(blind.status == 0);
  CHECK(blind.out == predicted.out);  // in data order, however the data are split
  CHECK(downpour(dir, {"inspect", dir / "runs/job"}).out == before);
}

TEST_CASE("a bad record ends the job with its place, or is skipped and counted", "[integration]") {
  const ScratchDir dir;
  make_clicks(dir);
  dir.write("train.svm", read_text(dir / "train.svm") + "1 3:oops\n");
  const Ended failed = downpour(dir, {"train", dir / "job.toml"});
  CHECK(failed.status == 65);
  CHECK(failed.err.find("train.svm:20001") != std::string::npos);
  CHECK(failed.err.find("oops") != std::string::npos);
  const Json done = summary(downpour(dir, with({"train", dir / "job.toml", "--fresh", "--set",
                                                "data.bad_records=skip", "--set", "eval.holdout=0"},
                                               kJson)));
  CHECK(done["accounts"][0]["skipped"] == 1);
  CHECK(done["accounts"][0]["read"] == 20001);
}

TEST_CASE("processes started by hand find the chief and end with it", "[integration]") {
  const ScratchDir dir;
  make_clicks(dir, "cluster = { ps = 1, workers = 1 }\n");
  const std::string chief_at = "ipc://" + dir / "chief";
  Program chief("downpour-chief", {dir / "job.toml", "--bind", chief_at, "--json"}, dir.path());
  Program ps("downpour-ps",
             {"--chief", chief_at, "--bind", "ipc://" + dir / "ps", "--threads", "1"}, dir.path());
  Program worker("downpour-worker", {"--chief", chief_at, "--threads", "1"}, dir.path());
  const Ended ended = chief.wait(120);
  INFO(ended.err);
  CHECK(ended.status == 0);
  check_balanced(summary(ended), 20000, 2);
  CHECK(ps.wait(10).status == 0);
  CHECK(worker.wait(10).status == 0);
}

TEST_CASE("a ps joins and another one leaves during training, and every record counts once",
          "[integration]") {
  const ScratchDir dir;
  make_clicks(dir, "cluster = { ps = 2, workers = 2 }\n", 40000);
  const std::string chief_at = "ipc://" + dir / "chief";
  Program chief("downpour-chief",
                {dir / "job.toml", "--bind", chief_at, "--json", "--set", "train.epochs=40"},
                dir.path());
  const auto ps = [&](int i) {
    return std::vector<std::string>{"--chief", chief_at,
                                    "--bind",  "ipc://" + dir / "ps" + std::to_string(i),
                                    "--index", std::to_string(i)};
  };
  Program first("downpour-ps", ps(0), dir.path()), second("downpour-ps", ps(1), dir.path());
  Program worker("downpour-worker", {"--chief", chief_at, "--threads", "1"}, dir.path());
  Program guest("downpour-worker", {"--chief", chief_at, "--threads", "1"}, dir.path());
  REQUIRE(chief.saw("\"epoch\":0,", 60));  // after the first account
  Program third("downpour-ps", ps(2), dir.path());
  REQUIRE(chief.saw("ps 2 joins", 20));
  REQUIRE(chief.saw("\"epoch\":4,", 60));
  first.signal(SIGTERM);
  guest.signal(SIGTERM);
  CHECK(first.wait(60).status == 0);
  CHECK(guest.wait(10).status == 0);
  const Ended ended = chief.wait(180);
  INFO(ended.err);
  CHECK(ended.status == 0);
  const Json done = summary(ended);
  check_balanced(done, 40000, 40);
  CHECK(done["partitions_moved"] >= 85 + 42);
  CHECK(second.wait(10).status == 0);
  CHECK(third.wait(10).status == 0);
}

TEST_CASE("a process that finds no chief reports it and ends", "[integration]") {
  const ScratchDir dir;
  for (const char* program : {"downpour-ps", "downpour-worker"}) {
    const std::vector<std::string> flags = {"--chief", "127.0.0.1:1", "--connect-timeout", "1"};
    const Ended without_keys = Program(program, flags, dir.path()).wait(20);
    CHECK(without_keys.status == 77);
    CHECK(without_keys.err.find("DP-2711") != std::string::npos);
    const Ended ended = Program(program, with(flags, {"--insecure"}), dir.path()).wait(20);
    CHECK(!ended.timed_out);
    CHECK(ended.status == 69);
    CHECK(ended.err.find("the chief does not answer [DP-4000]") != std::string::npos);
    CHECK(ended.err.find("127.0.0.1:1\n") != std::string::npos);
    const Ended unknown =
        Program(program,
                {"--chief", "no-such-host.invalid:7000", "--insecure", "--connect-timeout", "1"},
                dir.path())
            .wait(20);
    CHECK(unknown.status == 69);
    CHECK(unknown.err.find("the name of the chief's machine, `no-such-host.invalid`, is unknown") !=
          std::string::npos);
  }
}

TEST_CASE("without a terminal no carriage return and no escape sequence is printed",
          "[integration]") {
  const ScratchDir dir;
  make_clicks(dir);
  const Ended ended = downpour(dir, {"train", dir / "job.toml"});
  for (const std::string* text : {&ended.out, &ended.err}) {
    CHECK(text->find('\r') == std::string::npos);
    CHECK(text->find('\033') == std::string::npos);
  }
}

TEST_CASE("unknown verbs and missing arguments end with 64 and a hint", "[integration]") {
  const ScratchDir dir;
  const Ended verb = downpour(dir, {"trian", "x"});
  CHECK(verb.status == 64);
  CHECK(verb.err.find("did you mean `train`") != std::string::npos);
  CHECK(downpour(dir, {"train"}).status == 64);
  CHECK(downpour(dir, {"train", dir / "absent.toml"}).status == 66);
}

TEST_CASE("evaluation data that do not fit the job are an error before training begins",
          "[integration]") {
  const ScratchDir dir;
  std::string train = "a,y\n", other = "b\ty\n";
  for (int i = 0; i < 200; ++i) {
    train += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
    other += std::to_string(i) + "\t" + std::to_string(i % 2) + "\n";
  }
  dir.write("train.csv", train);
  dir.write("other.tsv", other);
  dir.write("job.toml",
            "data = { source = \"train.csv\", format = \"csv\" }\n"
            "model = { preset = \"wide_deep\", target = \"y\" }\n"
            "eval.source = \"other.tsv\"\n");
  const Ended ended = downpour(dir, {"train", dir / "job.toml"});
  CHECK(ended.status == 78);
  CHECK(ended.err.find("the evaluation's source: field a: there is no column \"a\"") !=
        std::string::npos);
  CHECK(ended.err.find("they are separated by tabs: set format = \"tsv\"") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "runs/job/events.jsonl"));
}

/// Returns the processors that a process may use.
cpu_set_t cpus_of(pid_t pid) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(pid, sizeof set, &set);
  return set;
}

TEST_CASE("the processes of a local cluster divide the processors among them", "[integration]") {
  const cpu_set_t here = cpus_of(0);
  const int parts = 2;
  if (CPU_COUNT(&here) % parts != 0 || int(allowed_cpus()) != CPU_COUNT(&here)) {
    WARN("skipped: the processors can't be divided");
    return;
  }
  const ScratchDir dir;
  make_clicks(dir);
  const std::string count = std::to_string(parts);
  Program train(
      "downpour",
      with({"train", dir / "job.toml", "--ps", count, "--workers", count, "--epochs", "1000"},
           kJson),
      dir.path());
  for (const char* name : {"downpour-ps", "downpour-worker"}) {
    CAPTURE(name);
    int divided = 0;
    cpu_set_t joined;
    for (int i = 0; i < 4000 && divided < parts; ++i) {
      usleep(5000);
      CPU_ZERO(&joined);
      divided = 0;
      for (const pid_t pid : train.children(name)) {
        const cpu_set_t part = cpus_of(pid);
        CPU_OR(&joined, &joined, &part);
        if (CPU_COUNT(&part) == CPU_COUNT(&here) / parts) ++divided;
      }
    }
    CHECK(divided == parts);
    CHECK(CPU_EQUAL(&joined, &here));
  }
  kill(train.pid(), SIGTERM);
  train.wait(60);
}

}  // namespace
}  // namespace downpour::testing
