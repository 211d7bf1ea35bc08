// Local training with sync_every = "epoch": each replica trains its share of an epoch alone, and
// the models are averaged once per epoch.
#include <cstring>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/killed_child.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::json;
constexpr int kRecords = 8000;

/// Writes records of equal length, sorted by the first key. Their label depends on both keys: with
/// each value of one, except four of the second, both labels occur. One key alone gives at most an
/// AUC of 0.84.
void write_data(const ScratchDir& dir) {
  std::string text;
  for (int i = 0; i < kRecords; ++i) {
    const int a = i / 250, b = i * 7919 % 97;
    text += std::to_string(a * 3 + b < 96 ? 1 : 0) + " " + std::to_string(1000 + a) + ":1 " +
            std::to_string(2000 + b) + ":1\n";
  }
  dir.write("data.svm", text);
}

/// A folder with the data.
struct DataDir : ScratchDir {
  DataDir() { write_data(*this); }
};

/// Trains, and returns the summary.
Json train(const ScratchDir& dir, const std::string& run, std::vector<std::string> flags,
           const std::string& kills = {}) {
  dir.write(
      run + ".toml",
      "run_dir = \"" + run +
          "\"\npartitions = 16\n"
          "data = { source = \"data.svm\", format = \"libsvm\" }\n"
          "model.layers = [{ name = \"e\", type = \"embedding\", inputs = [\"features\"], "
          "dim = 8 }, { name = \"d\", type = \"dense\", inputs = [\"e\"], units = [16, 1], "
          "dropout = 0.1 }]\n"
          "model.outputs = [{ name = \"y\", input = \"d\", loss = \"logistic\", target = "
          "\"label\" }]\n"
          "optimizer = { type = \"adagrad\", learning_rate = 0.1 }\n"
          "train = { mode = \"local\", replicas = 4, sync_every = \"epoch\", batch_size = 25, "
          "epochs = 20, checkpoint = { every = 2 } }\neval.source = \"data.svm\"\n");
  flags.insert(flags.begin(), {"train", dir / (run + ".toml"), "--log-format", "json", "--quiet"});
  Program program("downpour", flags, dir.path());
  return Json::parse(finish_training(program, dir / run, kills).out);
}

/// Returns the weights of all variables of the run. In a file of this format they follow a header,
/// which also has the job, and the length of the header.
std::string variables(const ScratchDir& dir, const std::string& run) {
  const std::string file = dir / (run + ".safetensors");
  const Ended ended =
      Program("downpour", {"export", dir / run, "--out", file}, dir.path()).wait(60);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const std::string bytes = read_text(file);
  uint64_t header = 0;
  REQUIRE(bytes.size() > sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  REQUIRE(bytes.size() > sizeof header + header);
  return bytes.substr(sizeof header + header);
}

}  // namespace

TEST_CASE("shares of an epoch give the same model for any number of processes", "[integration]") {
  const DataDir dir;
  const Json one = train(dir, "one", {"--workers", "1"});
  CHECK(one["steps_counted"] == 20);  // one step of four replicas per epoch
  CHECK(one["steps"] == 80);
  const std::string alone = variables(dir, "one");
  REQUIRE(alone.size() > 133 * 8 * sizeof(float));
  const auto same = [&](const std::string& run, const std::vector<std::string>& flags,
                        const std::string& kills = {}) {
    CAPTURE(run);
    train(dir, run, flags, kills);
    CHECK((variables(dir, run) == alone));
  };
  same("two", {"--workers", "2"});
  same("three", {"--ps", "2", "--workers", "3", "--threads", "2"});
  same("in-process", {"--workers", "0", "--threads", "3", "--set", "train.replicas=4"});
  same("worker-dies", {"--ps", "2", "--workers", "2"}, "downpour-worker");
  same("ps-dies", {"--ps", "2", "--workers", "2"}, "downpour-ps");
  // A number of batches that is at least a share, with shards of the same ranges, is the same.
  same("number", {"--set", "train.sync_every=100", "--set", "data.shard_records=2000", "--set",
                  "data.interleave.cycle=16"});
}

TEST_CASE("replicas that train sorted data alone learn them, because each has a part of all",
          "[integration]") {
  const DataDir dir;
  const Json local = train(dir, "local", {"--workers", "2"});
  CHECK(local["evaluations"].back()["outputs"]["y"]["auc"].get<double>() > 0.998);
}

TEST_CASE("a run may change between shares of an epoch and numbers of batches between epochs",
          "[integration]") {
  const DataDir dir;
  train(dir, "run", {"--epochs", "2"});
  const Json more = train(dir, "run", {"--epochs", "4", "--set", "train.sync_every=8"});
  CHECK(more["accounts"].back()["epoch"] == 3);
  CHECK(more["steps_counted"] == 2 + 2 * 10);
  CHECK(train(dir, "run", {"--epochs", "5"})["accounts"].back()["epoch"] == 4);
}

TEST_CASE("a share above the most records of a local round is trained in two, with a warning",
          "[integration]") {
  const ScratchDir dir;
  // The first lines are so long that few records are expected.
  std::string text;
  for (int i = 0; i < 500; ++i) text += "1 1:" + std::string(4000, '0') + "1\n";
  for (int i = 0; i < 1'100'000; ++i) text += i % 2 == 0 ? "0 2:1\n" : "1 1:1\n";
  dir.write("data.svm", text);
  dir.write(
      "job.toml",
      "run_dir = \"run\"\npartitions = 2\n"
      "data = { source = \"data.svm\", format = \"libsvm\" }\n"
      "model.preset = \"logistic_regression\"\n"
      "train = { mode = \"local\", replicas = 1, sync_every = \"epoch\", batch_size = 8192 }\n");
  const Ended ended =
      Program("downpour", {"train", dir / "job.toml", "--log-format", "json"}, dir.path())
          .wait(180);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out + ended.err,
             Contains("epoch 1 had a second local round, because a replica's share has more than "
                      "1048576 records: raise train.replicas"));
  CHECK_THAT(ended.out, Contains("1100500"));
}

}  // namespace downpour::testing
