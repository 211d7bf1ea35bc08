// Checkpoints of real jobs: written during training, resumed from, damaged, and used for a warm
// start.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <signal.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/seeds.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(180);
}

Json summary(const ScratchDir& dir, std::vector<std::string> arguments) {
  for (const char* flag : {"--log-format", "json", "--quiet"}) arguments.emplace_back(flag);
  const Ended ended = downpour(dir, arguments);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return Json::parse(ended.out);
}

void make_rows(const ScratchDir& dir, const std::string& file, int rows, int stream,
               const char* ids = "50") {
  REQUIRE(
      downpour(dir, {"synth", dir / file, "--rows", std::to_string(rows), "--ids", ids, "--numeric",
                     "4", "--categorical", "6", "--stream", std::to_string(stream)})
          .status == 0);
}

std::string job_text(const std::string& source, const std::string& train) {
  return "data = { source = \"" + source +
         "\", format = \"libsvm\", shuffle = \"off\" }\n"
         "model = { preset = \"logistic_regression\" }\n"
         "optimizer = { type = \"ftrl\", learning_rate = 0.1 }\n"
         "train = { " +
         train + " }\n";
}

/// Returns the paths of the manifests in the run folder, oldest first.
std::vector<std::string> manifests(const std::string& run) {
  std::vector<std::pair<int, std::string>> found;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints")) {
    const std::string name = entry.path().filename().string();
    int term = 0, n = 0;
    if (std::sscanf(name.c_str(), "manifest-%d-%d.dpm", &term, &n) == 2) {
      found.emplace_back(term * 100000 + n, entry.path().string());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (const auto& [order, path] : found) paths.push_back(path);
  return paths;
}

TEST_CASE(
    "a run that is killed inside an epoch resumes from a checkpoint of that epoch, with another "
    "number of processes, and its account balances",
    "[integration][checkpoint]") {
  const ScratchDir dir;
  make_rows(dir, "train.svm", 200000, 0);
  dir.write("job.toml",
            job_text("train.svm",
                     "epochs = 3, batch_size = 100, checkpoint = { every = \"50ms\", keep = 2 }"));
  Program train("downpour", {"train", dir / "job.toml"}, dir.path());
  const std::string run = dir / "runs/job";
  for (int i = 0;
       i < 4000 && (!std::filesystem::exists(run + "/checkpoints") || manifests(run).size() < 2);
       ++i)
    usleep(5000);
  REQUIRE(manifests(run).size() >= 2);
  train.signal(SIGKILL);
  train.wait(10);
  CHECK(manifests(run).size() <= 3);  // two, and possibly one that was just published
  std::filesystem::create_directories(run + "/moves");
  dir.write("runs/job/moves/move-1-9-ps-0-0-00000000000000ff.ckpt", "on its way when all died");
  const Json done = summary(dir, {"train", dir / "job.toml", "--ps", "2", "--workers", "2"});
  REQUIRE(done["accounts"].size() == 3);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == 200000);
    CHECK(account["applied"] == 200000);
  }
  CHECK(manifests(run).size() == 2);
  CHECK(std::filesystem::is_empty(run + "/moves"));
}

TEST_CASE(
    "the place of damage in a checkpoint is reported and the checkpoint before it is used; a "
    "checkpoint without its images is not used",
    "[integration][checkpoint]") {
  const ScratchDir dir;
  make_rows(dir, "train.svm", 20000, 0);
  dir.write("job.toml", job_text("train.svm", "epochs = 3, batch_size = 100"));
  // Each of these runs ends with a checkpoint. A run of three epochs may skip one, because an epoch
  // that ends while a checkpoint is written is part of the next one.
  for (const char* epochs : {"1", "2", "3"})
    REQUIRE(downpour(dir, {"train", dir / "job.toml", "--epochs", epochs}).status == 0);
  const std::string run = dir / "runs/job";
  const std::vector<std::string> all = manifests(run);
  REQUIRE(all.size() == 3);
  const std::string folder =
      run + "/checkpoints/" + std::filesystem::path(all[2]).stem().string().substr(9);
  for (const auto& file : std::filesystem::directory_iterator(folder))
    std::filesystem::remove(file.path());
  const Ended again = downpour(dir, {"train", dir / "job.toml"});
  INFO(again.err);
  CHECK(again.status == 0);
  CHECK(again.err.find(std::filesystem::path(all[2]).filename().string()) != std::string::npos);
  // The last epoch was trained again.
  CHECK(again.out.find("already finished") == std::string::npos);
  // A flipped bit of an image is detected when the image is read.
  const std::vector<std::string> now = manifests(run);
  const std::string image =
      std::filesystem::directory_iterator(
          run + "/checkpoints/" + std::filesystem::path(now.back()).stem().string().substr(9))
          ->path()
          .string();
  std::fstream file(image, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000);
  const int byte = file.peek();
  file.put(char(byte ^ 1));
  file.close();
  const Ended inspected = downpour(dir, {"inspect", run});
  CHECK(inspected.status == 65);
  CHECK(inspected.err.find(image + ":") != std::string::npos);
  const Ended once_more = downpour(dir, {"train", dir / "job.toml"});
  INFO(once_more.err);
  CHECK(once_more.status == 0);
  CHECK(once_more.err.find(image + ":") != std::string::npos);
  CHECK(downpour(dir, {"inspect", run}).status == 0);
}

TEST_CASE(
    "incremental checkpoints are resumed from, evaluated, warm started from and inspected like "
    "full ones",
    "[integration][checkpoint]") {
  const ScratchDir dir;
  make_rows(dir, "train.svm", 200000, 0, "20000");
  make_rows(dir, "test.svm", 2000, 1, "20000");
  // Full checkpoints are rare, so that even the last one of a run builds on another.
  const std::string checkpoint =
      "checkpoint = { every = \"50ms\", keep = 2, incremental = true, full_every = 100 }";
  dir.write("job.toml", job_text("train.svm", "epochs = 3, batch_size = 100, " + checkpoint));
  Program train("downpour", {"train", dir / "job.toml", "--ps", "2"}, dir.path());
  const std::string run = dir / "runs/job";
  const auto builds = [&] {  // whether the newest checkpoint builds on another
    const Ended inspected = downpour(dir, {"inspect", run, "--json"});
    return inspected.status == 0 && !Json::parse(inspected.out)["builds_on"].empty();
  };
  for (int i = 0; i < 400 && !(std::filesystem::exists(run + "/checkpoints") &&
                               manifests(run).size() >= 2 && builds());
       ++i)
    usleep(20000);
  train.signal(SIGKILL);
  train.wait(10);
  CHECK(downpour(dir, {"inspect", run}).status == 0);
  const Json done = summary(dir, {"train", dir / "job.toml", "--ps", "1", "--workers", "2"});
  REQUIRE(done["accounts"].size() == 3);
  for (const Json& account : done["accounts"]) CHECK(account["applied"] == 200000);
  // The last checkpoint may happen to be the full one that starts a new chain.
  for (int epochs = 4; epochs < 8 && !builds(); ++epochs)
    summary(dir, {"train", dir / "job.toml", "--ps", "1", "--epochs", std::to_string(epochs)});
  REQUIRE(builds());
  // Its evaluation gives the loss that the first batch of a warm-started run sees.
  const Json evaluated = summary(dir, {"eval", run, "--data", dir / "test.svm"});
  const double expected = evaluated["evaluations"][0]["outputs"].begin().value()["loss"];
  dir.write(
      "next.toml",
      job_text("test.svm", "epochs = 1, batch_size = 2000, warm_start = { run = \"runs/job\" }"));
  const Json next = summary(dir, {"train", dir / "next.toml"});
  CHECK(std::abs(next["accounts"][0]["loss"].get<double>() - expected) < 1e-6);
}

/// Flips a bit in every image file of the newest checkpoint.
void damage_newest(const std::string& run) {
  const std::string id = std::filesystem::path(manifests(run).back()).stem().string().substr(9);
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints/" + id)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    const int byte = file.peek();
    file.put(char(byte ^ 1));
  }
}

TEST_CASE(
    "a killed ps is restored from an older checkpoint if the newest one is damaged, and every "
    "record counts once",
    "[integration][checkpoint]") {
  const ScratchDir dir;
  const int rows = kSanitized ? 60000 : 300000;  // long enough to kill a ps inside an epoch
  make_rows(dir, "train.svm", rows, 0);
  dir.write("job.toml", job_text("train.svm", "epochs = 4, batch_size = 20"));
  Program train("downpour", {"train", dir / "job.toml", "--ps", "2"}, dir.path());
  const std::string run = dir / "runs/job";
  for (int i = 0;
       i < 8000 && !(std::filesystem::exists(run + "/checkpoints") && manifests(run).size() >= 2);
       ++i)
    usleep(5000);
  damage_newest(run);
  std::ifstream events(run + "/events.jsonl");
  int pid = 0;
  for (std::string line; std::getline(events, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_discarded() && event["event"] == "hello" && event["who"] == "ps 1")
      pid = event["pid"];
  }
  REQUIRE(pid > 0);
  kill(pid, SIGKILL);
  const Ended ended = train.wait(120);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.err.find("is damaged") != std::string::npos);
  CHECK(ended.err.find("all partitions are restored from checkpoint") != std::string::npos);
  const Json done = summary(dir, {"train", dir / "job.toml", "--epochs", "5"});
  REQUIRE(done["accounts"].size() == 5);
  for (const Json& account : done["accounts"]) CHECK(account["applied"] == rows);
}

TEST_CASE("a damaged checkpoint is an error if the job forbids falling back to an older one",
          "[integration][checkpoint]") {
  const ScratchDir dir;
  make_rows(dir, "train.svm", 5000, 0);
  dir.write(
      "job.toml",
      job_text("train.svm", "epochs = 2, batch_size = 100, checkpoint = { fall_back = false }"));
  REQUIRE(downpour(dir, {"train", dir / "job.toml"}).status == 0);
  damage_newest(dir / "runs/job");
  const Ended again = downpour(dir, {"train", dir / "job.toml", "--epochs", "3"});
  CHECK(again.status == 65);
  CHECK(again.err.find("fall_back") != std::string::npos);
}

TEST_CASE(
    "a warm start begins with the other run's variables: the loss of the first batch equals that "
    "run's evaluation of it",
    "[integration][checkpoint]") {
  const ScratchDir dir;
  make_rows(dir, "day1.svm", 20000, 0);
  make_rows(dir, "day2.svm", 500, 1);
  dir.write("day1.toml", job_text("day1.svm", "epochs = 1, batch_size = 100"));
  REQUIRE(downpour(dir, {"train", dir / "day1.toml"}).status == 0);
  const Json evaluated = summary(dir, {"eval", dir / "runs/day1", "--data", dir / "day2.svm"});
  const double expected = evaluated["evaluations"][0]["outputs"].begin().value()["loss"];
  // One batch contains the whole day, so the loss of the epoch is the loss of that batch.
  dir.write(
      "day2.toml",
      job_text("day2.svm", "epochs = 1, batch_size = 500, warm_start = { run = \"runs/day1\" }"));
  const Json done = summary(dir, {"train", dir / "day2.toml"});
  INFO(done.dump());
  REQUIRE(done["accounts"].size() == 1);
  CHECK(done["accounts"][0]["batches"] == 1);
  CHECK(std::abs(done["accounts"][0]["loss"].get<double>() - expected) < 1e-6);

  dir.write("cold.toml", job_text("day2.svm", "epochs = 1, batch_size = 500"));
  CHECK(std::abs(summary(dir, {"train", dir / "cold.toml"})["accounts"][0]["loss"].get<double>() -
                 expected) > 0.01);
  dir.write("other.toml", job_text("day2.svm", "epochs = 1, warm_start = { run = \"runs/day1\" }"));
  const std::vector<std::string> other = {"train", dir / "other.toml", "--set",
                                          "optimizer.type=adagrad"};
  const Ended refused = downpour(dir, other);
  INFO(refused.err);
  CHECK(refused.status == 78);
  CHECK(refused.err.find("is ftrl in the other run, but adagrad in this job") != std::string::npos);
  CHECK(!std::filesystem::exists(dir / "runs/other/run"));  // the run has not begun
  CHECK(downpour(dir,
                 {other[0], other[1], other[2], other[3], "--set", "train.warm_start.slots=false"})
            .status == 0);
}

}  // namespace
TEST_CASE(
    "average makes a model of runs on parts of the data that is better than they are on average",
    "[integration]") {
  const ScratchDir dir;
  make_rows(dir, "test.svm", 4000, 9, "10");
  std::ofstream all(dir / "all.svm");
  std::vector<std::string> arguments = {"average"};
  for (int i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    make_rows(dir, name + ".svm", 2000 + 1000 * i, i, "10");
    all << read_text(dir / (name + ".svm"));
    dir.write(name + ".toml", job_text(name + ".svm", "epochs = 2, batch_size = 100"));
    summary(dir, {"train", dir / (name + ".toml")});
    arguments.push_back(dir / ("runs/" + name));
  }
  all.close();
  dir.write("all.toml", job_text("all.svm", "epochs = 2, batch_size = 100"));
  summary(dir, {"train", dir / "all.toml"});
  arguments.insert(arguments.end(), {"--out", dir / "runs/mean"});
  const Ended averaged = downpour(dir, arguments);
  INFO(averaged.out << averaged.err);
  REQUIRE(averaged.status == 0);
  CHECK(averaged.out.find("6,000") != std::string::npos);  // 2 epochs of 3000 records
  CHECK(averaged.out.find("33.3 %") != std::string::npos);

  const auto auc = [&](const std::string& run) {
    const Json json = summary(dir, {"eval", dir / ("runs/" + run), "--data", dir / "test.svm"});
    return json["evaluations"][0]["outputs"].begin().value()["auc"].get<double>();
  };
  const double parts = (auc("part0") + auc("part1") + auc("part2")) / 3;
  INFO("mean of the parts' AUC: " << parts << ", of one model: " << auc("all"));
  CHECK(auc("mean") > parts);
  // It is the start of another run, and no run itself.
  dir.write("next.toml", job_text("all.svm",
                                  "epochs = 1, batch_size = 100, warm_start = { run = "
                                  "\"runs/mean\", slots = false }"));
  summary(dir, {"train", dir / "next.toml"});
  CHECK(auc("next") > auc("mean") - 0.005);
  const Ended again = downpour(dir, arguments);
  CHECK(again.status == 73);
  CHECK(again.err.find("a run is in this folder") != std::string::npos);

  dir.write("other.toml", "seed = 2\n" + job_text("all.svm", "epochs = 1, batch_size = 100"));
  summary(dir, {"train", dir / "other.toml"});
  const Ended other =
      downpour(dir, {"average", dir / "runs/all", dir / "runs/other", "--out", dir / "runs/mixed"});
  CHECK(other.status == 78);
  CHECK(other.err.find("`seed` differs") != std::string::npos);
  CHECK(other.err.find("runs/other") != std::string::npos);
  summary(dir, {"train", dir / "part0.toml", "--set", "model.preset=linear_regression", "--set",
                "name=squared", "--set", "run_dir=" + dir / "runs/squared"});
  const Ended squared = downpour(
      dir, {"average", dir / "runs/all", dir / "runs/squared", "--out", dir / "runs/mixed"});
  CHECK(squared.status == 78);
  CHECK(squared.err.find("differs from that of") != std::string::npos);
  const Ended twice =
      downpour(dir, {"average", dir / "runs/all", dir / "runs/mean", "--out", dir / "runs/mixed"});
  CHECK(twice.err.find("without an epoch of its own") != std::string::npos);
}

}  // namespace downpour::testing
