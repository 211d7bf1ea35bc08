// Mode "mixed" with real processes: each record counts once in the sparse rows and in the dense
// variables, although a worker and a ps die.
#include <cmath>
#include <sstream>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/support/counter_rows.h"
#include "tests/support/killed_child.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

constexpr int kRows = 6400;  // 400 batches of 16
constexpr int kEpochs = 4;

/// The counter model with a bias, which grows by 2^-16 with each record.
std::string counter_model_with_bias() {
  return "model.layers = [{ name = \"w\", type = \"linear\", inputs = [\"features\"] }]\n"
         "model.outputs = [{ name = \"y\", input = \"w\", loss = \"squared\", target = \"label\" "
         "}]\n"
         "optimizer = { type = \"sgd\", learning_rate = 4.656612873077392578125e-10, rules = [\n"
         "  { variables = \"w/bias\", type = \"sgd\", "
         "learning_rate = 7.10542735760100185871124267578125e-15 }] }\n";
}

/// Waits until `events` has `count` times the text.
void wait_for(const std::string& events, const std::string& text, int count) {
  const auto found = [&] {
    const std::string all = read_text(events);
    int times = 0;
    for (size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++times;
    return times;
  };
  for (int i = 0; i < 12000 && found() < count; ++i) usleep(5000);
  REQUIRE(found() >= count);
}

}  // namespace

TEST_CASE("in mode mixed each record counts once, although a worker and a ps are killed",
          "[integration]") {
  const ScratchDir dir;
  dir.write("rows.svm", counter_rows(kRows));
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = \"rows.svm\", format = \"libsvm\", shard_records = 320 }\n" +
                counter_model_with_bias() +
                "train = { mode = \"mixed\", replicas = 4, epochs = " + std::to_string(kEpochs) +
                ", batch_size = 16, reduction = \"sum\", checkpoint = { every = 60 } }\n"
                "cluster = { ps = 2, workers = 3 }\n");
  Program train("downpour", {"train", dir / "job.toml", "--quiet"}, dir.path());
  const std::string events = dir / "run/events.jsonl";
  wait_for(events, "\"published\"", 1);
  kill_child(train, "downpour-worker");
  wait_for(events, "\"published\"", 3);
  kill_child(train, "downpour-ps");
  const Ended ended = train.wait(180);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const std::string log = read_text(events);
  CHECK(log.find("\"process_ended\"") != std::string::npos);
  CHECK(log.find("\"ps_lost\"") != std::string::npos);

  const Ended predicted =
      Program("downpour", {"predict", dir / "run", "--data", dir / "rows.svm"}, dir.path())
          .wait(60);
  INFO(predicted.err);
  REQUIRE(predicted.status == 0);
  const double bias = kEpochs * kRows / 65536.0;
  std::istringstream lines(predicted.out);
  int rows = 0;
  for (double value = 0; lines >> value; ++rows) CHECK(std::abs(value - kEpochs - bias) < 1e-5);
  CHECK(rows == kRows);
}

TEST_CASE("mode mixed needs sparse tables and dense variables", "[integration]") {
  const ScratchDir dir;
  dir.write("rows.svm", counter_rows(64));
  dir.write("job.toml", "data = { source = \"rows.svm\", format = \"libsvm\" }\n" +
                            counter_model() + "train = { mode = \"mixed\", replicas = 2 }\n");
  const Ended ended = Program("downpour", {"train", dir / "job.toml"}, dir.path()).wait(60);
  CHECK(ended.status == 78);
  CHECK(ended.err.find("but the model has no dense variables") != std::string::npos);
}

TEST_CASE("a run in mode mixed starts only from a run in the same mode", "[integration]") {
  const ScratchDir dir;
  dir.write("rows.svm", counter_rows(640));
  const auto train = [&](const std::string& run, const std::string& mode, const std::string& more) {
    dir.write(run + ".toml", "run_dir = \"" + run +
                                 "\"\npartitions = 16\ndata = { source = \"rows.svm\", format = "
                                 "\"libsvm\" }\n" +
                                 counter_model_with_bias() + "train = { mode = \"" + mode +
                                 "\", batch_size = 16, reduction = \"sum\"" + more + " }\n");
    return Program("downpour", {"train", dir / (run + ".toml"), "--quiet"}, dir.path()).wait(60);
  };
  REQUIRE(train("first", "mixed", "").status == 0);
  const std::string warm = ", warm_start = { run = \"first\" }";
  CHECK(train("second", "mixed", warm).status == 0);
  const Ended other = train("third", "async", warm);
  CHECK(other.status == 78);
  CHECK(other.err.find("`train.mode` is \"mixed\" in the other run") != std::string::npos);
  REQUIRE(train("fourth", "async", "").status == 0);
  const Ended mean =
      Program("downpour", {"average", dir / "first", dir / "fourth", "--out", dir / "mean"},
              dir.path())
          .wait(60);
  CHECK(mean.status == 78);
  CHECK(mean.err.find("`train.mode`") != std::string::npos);
  const Ended changed = train("first", "async", ", epochs = 2");
  CHECK(changed.status == 78);
  CHECK(changed.err.find("`train.mode` was") != std::string::npos);
}

}  // namespace downpour::testing
