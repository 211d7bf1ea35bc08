// Records that can't be trained on, and `downpour explain`, as a user sees them.
#include <fstream>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/clicks.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

constexpr int kRows = 4000;
constexpr int kBatch = 50;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(120);
}

/// Makes a job with good records, except for `odd` in line `line` (counted from 1; 0 for none).
void make_job(const ScratchDir& dir, int line, const std::string& odd, const std::string& train) {
  std::string text;
  for (int i = 1; i <= kRows; ++i) {
    text +=
        i == line ? odd + "\n" : std::to_string(i % 2) + " " + std::to_string(1 + i % 37) + ":1\n";
  }
  dir.write("train.svm", text);
  dir.write("job.toml",
            "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 400 }\n"
            "model = { preset = \"linear_regression\" }\n"
            "optimizer = { type = \"sgd\", learning_rate = 0.01 }\n"
            "train = { epochs = 2, batch_size = " +
                std::to_string(kBatch) + train + " }\n");
}

Json summary(const Ended& ended) {
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return Json::parse(ended.out);
}

/// Checks that both epochs left out one batch and applied all other records once.
void check_without_one_batch(const Json& done) {
  REQUIRE(done["accounts"].size() == 2);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == kRows);
    CHECK(account["quarantined"] == kBatch);
    CHECK(account["applied"] == kRows - kBatch);
  }
  REQUIRE(done["quarantined"].size() == 2);
  CHECK(done["quarantined"][1]["epoch"] == 1);
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Trains until bad data end the job. Returns what it prints to stderr.
std::string why_stopped(const ScratchDir& dir) {
  const Ended stopped = downpour(dir, {"train", dir / "job.toml"});
  CHECK(stopped.status == 65);
  return stopped.err;
}

TEST_CASE(
    "a loss that is not finite ends the job and names the records, or their batch is left out",
    "[integration]") {
  const ScratchDir dir;
  make_job(dir, 777, "1e25 5:1e20", "");
  const std::string why = why_stopped(dir);
  CHECK(holds(why, "not finite"));
  CHECK(holds(why, "[DP-3401]"));
  CHECK(holds(why, "train.svm, records that start in bytes ["));
  CHECK(holds(why, "train.on_nan"));

  const std::vector<std::string> skip = {
      "train", dir / "job.toml", "--fresh", "--set", "train.on_nan=skip", "--log-format", "json"};
  for (const bool processes : {false, true}) {
    std::vector<std::string> arguments = skip;
    if (processes) arguments.insert(arguments.end(), {"--ps", "2", "--workers", "2"});
    const Ended ended = downpour(dir, arguments);
    check_without_one_batch(summary(ended));
    CHECK(holds(ended.err, "is left out"));
  }
  const Ended told = downpour(dir, {"explain", dir / "train.svm:777", "--run", dir / "runs/job"});
  INFO(told.out + told.err);
  CHECK(told.status == 0);
  CHECK(holds(told.out, "train.svm:777: record 777"));
  CHECK(holds(told.out, "quarantined: "));
  CHECK(holds(told.out, "quarantined at all partitions"));
  CHECK(holds(told.out, "epoch 2: shard "));
  CHECK(holds(told.out, "the epoch is complete"));
}

TEST_CASE("a record that can't be read ends the job, or its batch is left out if the job allows it",
          "[integration]") {
  const ScratchDir dir;
  make_job(dir, 1234, "1 x:y", "");
  CHECK(holds(why_stopped(dir), "train.svm:1234"));
  check_without_one_batch(
      summary(downpour(dir, {"train", dir / "job.toml", "--fresh", "--set", "train.quarantine=true",
                             "--workers", "2", "--log-format", "json"})));
  // The same in the text output.
  const Ended said =
      downpour(dir, {"train", dir / "job.toml", "--fresh", "--set", "train.quarantine=true"});
  CHECK(holds(said.out, "quarantined 100"));
  CHECK(holds(said.out, "left out 2 batches"));
  CHECK(holds(said.out, "bad record"));
}

TEST_CASE("explain shows both attempts at a shard whose first worker was killed", "[integration]") {
  const ScratchDir dir;
  write_clicks(dir, 400000);
  dir.write("job.toml",
            "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 20000 }\n"
            "model = { preset = \"logistic_regression\" }\n"
            "train = { epochs = 2, batch_size = 100 }\n");
  Program train("downpour", {"train", dir / "job.toml", "--workers", "2", "--quiet"}, dir.path());
  const std::string events = dir / "runs/job/events.jsonl";
  kill_worker_with_lease(train, dir);
  const Ended ended = train.wait(180);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  // Finds the first byte of the killed worker's shard.
  uint64_t begin = 0, epoch = UINT64_MAX, shard = 0;
  std::istringstream lines(read_text(events));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event["event"] == "expired") epoch = event["epoch"], shard = event["shard"];
  }
  REQUIRE(epoch != UINT64_MAX);
  lines = std::istringstream(read_text(events));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event["event"] == "lease" && event["epoch"] == epoch && event["shard"] == shard)
      begin = event["begin"];
  }
  const Ended told = downpour(dir, {"explain", dir / "train.svm:" + std::to_string(begin + 2000),
                                    "--byte", "--run", dir / "job.toml"});
  INFO(told.out + told.err);
  REQUIRE(told.status == 0);
  const std::string of_epoch = told.out.substr(told.out.find("epoch " + std::to_string(epoch + 1)));
  CHECK(holds(of_epoch, "attempt 1: worker "));
  CHECK(holds(of_epoch, " was lost, at "));
  CHECK(holds(of_epoch, "attempt 2: worker "));
  CHECK(holds(of_epoch, "finished the shard at"));
  CHECK(holds(of_epoch, "applied once at every partition"));
}

TEST_CASE("explain does not show the lease of an evaluation as another attempt", "[integration]") {
  const ScratchDir dir;
  make_job(dir, 0, "", "");
  const std::string job = dir / "job.toml";
  REQUIRE(downpour(dir, {"train", job, "--quiet", "--set", "eval.holdout=0.2"}).status == 0);
  const Ended told = downpour(dir, {"explain", "train.svm:10", "--run", dir / "runs/job"});
  INFO(told.out + told.err);
  REQUIRE(told.status == 0);
  size_t ended = 0;
  for (size_t at = 0; (at = told.out.find("finished the shard", at)) != std::string::npos; ++at)
    ++ended;
  CHECK(ended == 2);  // two epochs
  std::ofstream(dir / "runs/job/events.jsonl", std::ios::app)
      << R"({"ms": 1, "event": 5})" << std::endl;
  const Ended damaged = downpour(dir, {"explain", "train.svm:10", "--run", dir / "runs/job"});
  CHECK(damaged.status == 65);
  CHECK(holds(damaged.err, "the event is damaged"));
  CHECK(holds(damaged.err, "events.jsonl:"));
}

TEST_CASE("explain does not place a record in an epoch of another job", "[integration]") {
  const ScratchDir dir;
  make_job(dir, 0, "", "");
  const std::string job = dir / "job.toml";
  REQUIRE(downpour(dir, {"train", job, "--quiet", "--epochs", "1"}).status == 0);
  REQUIRE(downpour(dir, {"train", job, "--quiet", "--set", "train.batch_size=10"}).status == 0);
  const Ended told = downpour(dir, {"explain", "train.svm:10", "--run", dir / "runs/job"});
  INFO(told.out + told.err);
  REQUIRE(told.status == 0);
  CHECK(holds(told.out,
              "epoch 1: trained with another job or other data, so its shard and batch "
              "are not known\n  the epoch is complete"));
  CHECK(holds(told.out, "epoch 2: shard "));
}

TEST_CASE("explain reports what is wrong with a question about a record", "[integration]") {
  const ScratchDir dir;
  make_job(dir, 0, "", "");
  REQUIRE(downpour(dir, {"train", dir / "job.toml", "--quiet"}).status == 0);
  const std::string run = dir / "runs/job";
  const auto asked = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "explain");
    return downpour(dir, arguments);
  };
  const Ended beyond = asked({dir / "train.svm:4001", "--run", run});
  CHECK(beyond.status == 66);
  CHECK(holds(beyond.err, "the highest number is 4000"));
  CHECK(asked({dir / "train.svm:0", "--run", run}).status == 64);
  const Ended other = asked({dir / "other.svm:1", "--run", run});
  CHECK(other.status == 66);
  CHECK(holds(other.err, "it reads "));
  CHECK(asked({dir / "train.svm:1", "--run", dir / "nowhere"}).status == 66);
  CHECK(asked({"DP-2104"}).status == 0);
  CHECK(asked({"DP-0001"}).status == 64);
  const Ended good = asked({"train.svm:4000", "--run", run});
  CHECK(good.status == 0);
  CHECK(holds(good.out, "applied once at every partition"));
  // After the data have changed, the batch of a record is unknown.
  dir.write("train.svm", "1 1:1\n0 2:1\n");
  const Ended changed = asked({dir / "train.svm:1", "--run", run});
  CHECK(changed.status == 78);
  CHECK(holds(changed.err, "have changed"));
}

}  // namespace
}  // namespace downpour::testing
