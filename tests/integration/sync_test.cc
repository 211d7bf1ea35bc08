// Synchronous training with real processes: the same predictions, bit for bit, for any number of
// workers, threads and ps, and after the death of a worker or of a ps.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/rng.h"
#include "shared/plan/shard.h"
#include "tests/support/killed_child.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

constexpr int kRecords = 8000;

/// Returns a record with three categories and a number, whose label depends on all of them.
std::string random_record(Rng& rng) {
  const auto a = int(rng.below(20)), b = int(rng.below(20)), c = int(rng.below(7));
  const int x = int(rng.below(1000));
  const bool positive = (a * 7 + b * 3 + c * 11 + x / 100) % 10 < 4;
  return std::string(positive ? "1" : "0") + ",a" + std::to_string(a) + ",b" + std::to_string(b) +
         ",c" + std::to_string(c) + ",0." + std::to_string(1000 + x) + "\n";
}

/// Writes the records to data.csv, and to the files f0.csv to f4.csv.
void write_data(const ScratchDir& dir) {
  Rng rng(5);
  std::string text = "label,a,b,c,x\n";
  const std::string header = text;
  std::vector<std::string> files(5, header);
  for (int i = 0; i < kRecords; ++i) {
    const std::string record = random_record(rng);
    text += record;
    files[size_t(i) * size_t(i) / kRecords * 5 / kRecords] += record;  // of different lengths
  }
  dir.write("data.csv", text);
  dir.write("plain.csv", text.substr(header.size()));
  for (size_t f = 0; f < files.size(); ++f) dir.write("f" + std::to_string(f) + ".csv", files[f]);
}

/// A folder with the data.
struct DataDir : ScratchDir {
  DataDir() { write_data(*this); }
};

/// Writes random records to all.csv, and returns them.
std::vector<std::string> write_all(const ScratchDir& dir, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::string> records(1003);
  std::string all;
  for (std::string& record : records) all += record = random_record(rng);
  dir.write("all.csv", all);
  return records;
}

constexpr const char* kSource = "source = \"data.csv\"";

/// Trains with these flags, and returns the predictions. `data`: keys of the job's data; the
/// predictions are of `test_file`.
std::string predictions(const ScratchDir& dir, const std::string& run,
                        const std::vector<std::string>& flags, const std::string& kills = {},
                        const std::string& data = kSource,
                        const std::string& test_file = "data.csv",
                        const std::string& mode = "mode = \"sync\", replicas = 4") {
  dir.write(run + ".toml",
            "run_dir = \"" + run + "\"\npartitions = 16\ndata = { " + data +
                ", shard_records = 500 }\n"
                "model = { preset = \"wide_deep\", target = \"label\", dim = 8, units = [16], "
                "dropout = 0.1 }\n"
                "optimizer = { type = \"adam\", schedule = { type = \"cosine\", "
                "warmup_steps = 4, decay_steps = 40, end = 0.1 } }\n"
                "train = { " +
                mode + ", batch_size = 125, epochs = 3, checkpoint = { every = 8 } }\n");
  std::vector<std::string> arguments = {"train", dir / (run + ".toml"), "--quiet"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  Program train("downpour", arguments, dir.path());
  finish_training(train, dir / run, kills);
  const Ended predicted =
      Program("downpour", {"predict", dir / run, "--allow-exec", "--data", dir / test_file},
              dir.path())
          .wait(60);
  INFO(predicted.err);
  REQUIRE(predicted.status == 0);
  return predicted.out;
}

/// Trains an epoch on `records` with `replicas` replicas. Each file is a shard, and step k applies
/// the records from 256 k on. Returns the predictions.
std::vector<double> predictions_of_steps(
    const ScratchDir& dir, uint64_t seed, uint32_t replicas,
    const std::vector<std::string>& records,
    const std::string& model =
        "model = { preset = \"wide_deep\", target = \"label\", dim = 8, units = [16] }\n") {
  const std::string run = "r" + std::to_string(replicas) + "-" + std::to_string(seed);
  const size_t batch = 256 / replicas, shards = (records.size() + batch - 1) / batch;
  std::filesystem::create_directory(dir / run);
  for (size_t place = 0; place < shards; ++place) {
    std::string text;
    for (size_t i = place * batch; i < std::min(records.size(), (place + 1) * batch); ++i)
      text += records[i];
    const uint32_t file = plan::order_at(seed, 0, uint32_t(shards), uint32_t(place));
    dir.write(run + "/" + std::to_string(100 + file) + ".csv", text);
  }
  const std::string size = std::to_string(batch);
  dir.write(run + ".toml", "run_dir = \"" + run + "-run\"\nseed = " + std::to_string(seed) +
                               "\npartitions = 16\ndata.source = \"" + run +
                               "/*.csv\"\ndata.shuffle = \"off\"\n"
                               "data.columns = [\"label\", \"a\", \"b\", \"c\", \"x\"]\n" +
                               model +
                               "optimizer = { type = \"sgd\", learning_rate = 0.5 }\n"
                               "train = { mode = \"sync\", replicas = " +
                               std::to_string(replicas) + ", batch_size = " + size + " }\n");
  const Ended trained =
      Program("downpour", {"train", dir / (run + ".toml"), "--quiet"}, dir.path()).wait(60);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  const Ended predicted =
      Program("downpour", {"predict", dir / run + "-run", "--data", dir / "all.csv"}, dir.path())
          .wait(60);
  INFO(predicted.err);
  REQUIRE(predicted.status == 0);
  std::istringstream lines(predicted.out);
  std::vector<double> predictions;
  for (double prediction = 0; lines >> prediction;) predictions.push_back(prediction);
  return predictions;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// Checks that the predictions are the same with three workers, and after a process dies.
template <typename Train>
void check_processes(const Train& train) {
  const std::string alone = train("alone", {});
  REQUIRE(alone.size() > size_t{kRecords});
  CHECK(train("three", {"--ps", "2", "--workers", "3"}) == alone);
  CHECK(train("worker-dies", {"--ps", "2", "--workers", "2"}, "downpour-worker") == alone);
  CHECK(train("ps-dies", {"--ps", "2", "--workers", "2"}, "downpour-ps") == alone);
}

const std::vector<std::string> kInWorkers = {"--ps", "in_workers", "--workers", "2"};

}  // namespace

TEST_CASE("ps that run in the workers train the same model, also if one of these processes dies",
          "[integration]") {
  const DataDir dir;
  const std::string alone = predictions(dir, "alone", {});
  CHECK(predictions(dir, "both", kInWorkers) == alone);
  std::vector<std::string> flags = kInWorkers;
  flags.insert(flags.end(), {"--transport", "tcp", "--set", "cluster.ps_threads=2"});
  CHECK(predictions(dir, "tcp", flags) == alone);
  CHECK(predictions(dir, "dies", kInWorkers, "downpour-worker") == alone);
  const std::string events = read_text(dir / "dies/events.jsonl");
  CHECK(events.find("\"ps_lost\"") != std::string::npos);
}

TEST_CASE("batches of several messages are added in the order of the replicas", "[integration]") {
  const ScratchDir dir;
  Rng rng(8);
  std::string text = "label,id\n";
  for (int i = 0; i < 6000; ++i) {
    const auto id = int(rng.below(1500));
    text += std::to_string(id % 3 == 0 ? 1 : 0) + ",k" + std::to_string(id) + "\n";
  }
  dir.write("data.csv", text);
  const auto train = [&](const std::string& run, const std::vector<std::string>& flags) {
    // A message of values has at most 1 MiB, and a batch some 700 rows of 2 KiB.
    dir.write(run + ".toml", "run_dir = \"" + run +
                                 "\"\ndata = { source = \"data.csv\", shard_records = 1000 }\n"
                                 "model = { preset = \"wide_deep\", target = \"label\", "
                                 "dim = 512, units = [4] }\ntrain = { mode = \"sync\", "
                                 "replicas = 3, batch_size = 1000, epochs = 3 }\n");
    std::vector<std::string> arguments = {"train", dir / (run + ".toml"), "--quiet"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Ended trained = Program("downpour", arguments, dir.path()).wait(120);
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    const Ended predicted =
        Program("downpour", {"predict", dir / run, "--data", dir / "data.csv"}, dir.path()).wait();
    REQUIRE(predicted.status == 0);
    return predicted.out;
  };
  const std::string alone = train("alone", {});
  CHECK(alone.size() > 6000);
  CHECK(train("three", {"--workers", "3"}) == alone);
  CHECK(train("pairs", {"--ps", "2", "--workers", "2"}) == alone);
}

TEST_CASE(
    "four replicas with batches of 64 train like one with batches of 256, and so in a short step",
    "[integration]") {
  const ScratchDir dir;
  const std::vector<std::string> records = write_all(dir, 6);
  for (const uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const auto one = predictions_of_steps(dir, seed, 1, records);
    const auto four = predictions_of_steps(dir, seed, 4, records);
    REQUIRE(one.size() == records.size());
    CHECK(largest_difference(one, four) < 1e-5);
  }
}

TEST_CASE("four replicas train two outputs with a mean each like one replica", "[integration]") {
  const ScratchDir dir;
  const std::vector<std::string> records = write_all(dir, 7);
  for (const std::string weights : {"", ", weights = \"x\""}) {
    CAPTURE(weights);
    const std::string model =
        "data.fields = { label = {}, x = {}, a = { type = \"string\" }, b = { type = "
        "\"string\" } }\n"
        "model.layers = [{ name = \"wide\", type = \"linear\", inputs = [\"a\", \"b\"] }, "
        "{ name = \"deep\", type = \"dense\", inputs = [\"x\"], units = [4, 1] }]\n"
        "model.outputs = [{ name = \"click\", input = \"wide\", loss = \"logistic\", target = "
        "\"label\"" +
        weights +
        " }, { name = \"value\", input = \"deep\", loss = \"squared\", target = \"label\", "
        "weight = 0.5" +
        weights + " }]\n";
    const uint64_t seed = weights.empty() ? 4 : 5;
    const auto one = predictions_of_steps(dir, seed, 1, records, model);
    const auto four = predictions_of_steps(dir, seed, 4, records, model);
    REQUIRE(one.size() == 2 * records.size());
    CHECK(largest_difference(one, four) < 1e-5);
  }
}

TEST_CASE("synchronous training gives the same model for any number of processes",
          "[integration]") {
  const DataDir dir;
  const std::string alone = predictions(dir, "alone", {});
  REQUIRE(alone.size() > size_t{kRecords});
  CHECK(predictions(dir, "threads", {"--threads", "2"}) == alone);
  CHECK(predictions(dir, "in-process", {"--workers", "0", "--threads", "3"}) == alone);
  const Ended plan = Program("downpour",
                             {"train", dir / "in-process.toml", "--workers", "0", "--threads", "3",
                              "--fresh", "--dry-run"},
                             dir.path())
                         .wait(60);
  CHECK(plan.out.find("one process with 3 workers, 3 compute threads") != std::string::npos);
  CHECK(predictions(dir, "pair", {"--ps", "1", "--workers", "2"}) == alone);
  CHECK(predictions(dir, "three", {"--ps", "2", "--workers", "3"}) == alone);
  CHECK(predictions(dir, "worker-dies", {"--ps", "2", "--workers", "2"}, "downpour-worker") ==
        alone);
  CHECK(predictions(dir, "ps-dies", {"--ps", "2", "--workers", "2"}, "downpour-ps") == alone);
}

TEST_CASE(
    "train.steps ends synchronous training after the same batches for any number of processes",
    "[integration]") {
  const DataDir dir;
  // An epoch has 17 shards of 4 batches, and 20 steps. Step 22 is inside the first shard of each
  // replica in the second epoch, so the job ends with step 24.
  const auto steps = [&](const std::string& run, std::vector<std::string> flags,
                         const std::string& kills = {}, const std::string& mode = "sync") {
    flags.insert(flags.end(), {"--set", "train.mode=" + mode, "--set", "train.steps=22"});
    if (mode == "local") flags.insert(flags.end(), {"--set", "train.sync_every=1"});
    return predictions(dir, run, flags, kills);
  };
  check_processes(steps);
  const auto ended = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", dir / (run + ".toml"), "--log-format", "json",
                                          "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended done = Program("downpour", arguments, dir.path()).wait(60);
    INFO(done.err);
    REQUIRE(done.status == 0);
    return nlohmann::json::parse(done.out);
  };
  // The same command finds the job finished, and more steps continue in the same epoch.
  const auto again = ended("alone", {"--set", "train.steps=22"});
  CHECK(again["already_finished"] == true);
  CHECK(again["steps_counted"] == 24);
  CHECK(again["steps"] == 17 * 4 + 16);
  CHECK(again["accounts"].back()["shards_left"] == 13);
  const auto more = ended("alone", {"--set", "train.steps=25"});
  CHECK(more["steps_counted"] == 28);
  CHECK(more["accounts"].back()["shards_left"] == 9);
  // In local training it counts local rounds.
  const std::string local = steps("local", {"--ps", "2", "--workers", "2"}, {}, "local");
  REQUIRE(local.size() > size_t{kRecords});
  const auto finished = ended("local", {"--set", "train.mode=local", "--set", "train.sync_every=1",
                                        "--set", "train.steps=22"});
  CHECK(finished["already_finished"] == true);
  CHECK(finished["steps_counted"] == 24);
}

TEST_CASE(
    "synchronous training with clipped gradients gives the same model for any number of processes",
    "[integration]") {
  const DataDir dir;
  const auto clipped = [&](const std::string& run, std::vector<std::string> flags,
                           const std::string& value = "0.001") {
    flags.insert(flags.end(), {"--set", "optimizer.clip.value=" + value, "--epochs", "1"});
    return predictions(dir, run, flags);
  };
  const std::string alone = clipped("alone", {});
  CHECK(clipped("three", {"--ps", "2", "--workers", "3"}) == alone);
  CHECK(clipped("large", {}, "100") != alone);
  CHECK(clipped("large", {}, "100") == predictions(dir, "unlimited", {"--epochs", "1"}));
}

TEST_CASE("the norm of a step's gradients is limited alike for any number of processes",
          "[integration]") {
  const DataDir dir;
  for (const std::string key : {"norm", "global_norm"}) {
    CAPTURE(key);
    const auto limited = [&](const std::string& run, std::vector<std::string> flags,
                             const std::string& kills = {}) {
      flags.insert(flags.end(), {"--set", "optimizer.clip." + key + "=0.02", "--epochs", "1"});
      return predictions(dir, key + run, flags, kills);
    };
    const std::string alone = limited("-alone", {});
    REQUIRE(alone.size() > size_t{kRecords});
    CHECK(limited("-two", {"--ps", "2", "--workers", "1"}) == alone);
    CHECK(limited("-three", {"--ps", "3", "--set", "cluster.ps_threads=2", "--workers", "3"}) ==
          alone);
    CHECK(limited("-ps-dies", {"--ps", "2", "--workers", "2"}, "downpour-ps") == alone);
    CHECK(predictions(dir, key + "-large",
                      {"--epochs", "1", "--set", "optimizer.clip." + key + "=1000"}) ==
          predictions(dir, key + "-unlimited", {"--epochs", "1"}));
    CHECK(predictions(dir, key + "-unlimited", {"--epochs", "1"}) != alone);
  }
}

TEST_CASE("one replica whose gradients are limited trains like one asynchronous worker",
          "[integration]") {
  const DataDir dir;
  for (const std::string clip : {"value=0.001", "norm=0.02", "global_norm=0.02"}) {
    CAPTURE(clip);
    // With one shard, asynchronous training has the batches in the same order.
    const std::vector<std::string> flags = {"--ps",      "2",
                                            "--workers", "1",
                                            "--epochs",  "1",
                                            "--set",     "data.shard_records=100000",
                                            "--set",     "optimizer.type=sgd",
                                            "--set",     "optimizer.learning_rate=0.3",
                                            "--set",     "optimizer.clip." + clip};
    std::istringstream sync(predictions(dir, clip + "-sync", flags, {}, kSource, "data.csv",
                                        "mode = \"sync\", replicas = 1"));
    std::istringstream async(
        predictions(dir, clip + "-async", flags, {}, kSource, "data.csv", "in_flight = 1"));
    double largest = 0;
    size_t count = 0;
    for (double a = 0, b = 0; sync >> a && async >> b; ++count)
      largest = std::max(largest, std::abs(a - b));
    CHECK(count == size_t{kRecords});
    CHECK(largest < 1e-5);
  }
}

TEST_CASE("each replica reads its own files, records or copy, with any number of processes",
          "[integration]") {
  const DataDir dir;
  for (const std::string sharding : {"file", "data", "off"}) {
    for (const std::string mode : {"sync", "local"}) {
      const std::string name = sharding + "-" + mode;
      const auto sharded = [&](const std::string& run, std::vector<std::string> flags) {
        flags.insert(flags.end(), {"--set", "train.mode=" + mode, "--set",
                                   "data.sharding=" + sharding, "--epochs", "1"});
        if (mode == "local") flags.insert(flags.end(), {"--set", "train.sync_every=2"});
        if (sharding == "file")
          flags.insert(flags.end(), {"--set", "data.source=" + (dir / "f*.csv")});
        return predictions(dir, name + run, flags);
      };
      CAPTURE(name);
      const std::string alone = sharded("-alone", {});
      REQUIRE(alone.size() > size_t{kRecords});
      CHECK(sharded("-three", {"--ps", "2", "--workers", "3"}) == alone);
    }
  }
}

TEST_CASE("replicas that train alone give the same model for any number of processes",
          "[integration]") {
  const DataDir dir;
  const auto local = [&](const std::string& run, std::vector<std::string> flags,
                         const std::string& kills = {}) {
    for (const char* set : {"train.mode=local", "train.sync_every=2", "train.outer.type=momentum"})
      flags.insert(flags.end(), {"--set", set});
    return predictions(dir, run, flags, kills);
  };
  check_processes(local);

  // Local rounds of few records, so that not every replica touches every row.
  const std::vector<std::string> touched = {"--set", "train.average=touched", "--set",
                                            "train.batch_size=8"};
  const std::string touched_alone = local("touched", touched);
  CHECK(touched_alone != local("all", {"--set", "train.batch_size=8"}));
  std::vector<std::string> three = touched;
  three.insert(three.end(), {"--ps", "2", "--workers", "3"});
  CHECK(local("touched-three", three) == touched_alone);
}

TEST_CASE("replicas whose records come from input processes or programs give the same model",
          "[integration]") {
  const DataDir dir;
  const std::string plain =
      ", format = \"csv\", columns = [\"label\", \"a\", \"b\", \"c\", \"x\"], fields = { label = "
      "{}, "
      "a = { type = \"string\" }, b = { type = \"string\" }, c = { type = \"string\" }, x = {} }";
  const auto trained = [&](const std::string& run, const std::string& data,
                           std::vector<std::string> flags, const std::string& mode) {
    flags.insert(flags.end(), {"--epochs", "1", "--set", "train.mode=" + mode});
    if (mode == "local") flags.insert(flags.end(), {"--set", "train.sync_every=2"});
    return predictions(dir, mode + run, flags, {}, data + plain, "plain.csv");
  };
  const std::vector<std::string> three = {"--ps", "2", "--workers", "3"};
  std::vector<std::string> inputs = three;
  inputs.insert(inputs.end(), {"--input-workers", "2"});
  for (const std::string mode : {"sync", "local"}) {
    CAPTURE(mode);
    const std::string file = "source = \"plain.csv\"";
    const std::string alone = trained("file", file, {}, mode);
    REQUIRE(alone.size() > size_t{kRecords});
    CHECK(trained("file-inputs", file, inputs, mode) == alone);
    CHECK(trained("piped", file + ", program = [\"cat\"]", three, mode) == alone);
    for (const std::string replay : {"epoch", "none"}) {
      CAPTURE(replay);
      const std::string program =
          "source = { exec = [\"cat\", \"plain.csv\"], replay = \"" + replay + "\" }";
      const std::string written = trained(replay, program, {}, mode);
      REQUIRE(written.size() > size_t{kRecords});
      CHECK(trained(replay + "-three", program, three, mode) == written);
      CHECK(trained(replay + "-inputs", program, inputs, mode) == written);
    }
  }
}

TEST_CASE("a job that may quarantine batches leaves none out because a worker was killed",
          "[integration]") {
  const DataDir dir;
  const std::string alone = predictions(dir, "alone", {});
  const std::vector<std::string> flags = {"--ps", "2",     "--workers",
                                          "2",    "--set", "train.quarantine=true"};
  CHECK(predictions(dir, "worker-dies", flags, "downpour-worker") == alone);
  const std::string events = read_text(dir / "worker-dies/events.jsonl");
  CHECK(events.find("\"quarantine_proposed\"") == std::string::npos);
}

TEST_CASE("with backups an epoch has each record once, also if a worker or a ps dies",
          "[integration]") {
  const DataDir dir;
  const std::vector<std::string> flags = {"--ps", "2",     "--workers",
                                          "3",    "--set", "train.backups=2"};
  for (const char* victim : {"", "downpour-worker", "downpour-ps"}) {
    const std::string run = "backups" + std::string(victim);
    CHECK(predictions(dir, run, flags, victim).size() > size_t{kRecords});
    const std::string events = read_text(dir / run + "/events.jsonl");
    CHECK(events.find("\"complete\"") != std::string::npos);
  }
}

TEST_CASE("data with fewer shards than replicas are trained, with a warning", "[integration]") {
  const DataDir dir;
  const Ended ended = Program("downpour",
                              {"train", dir / "data.csv", "--set", "run_dir=" + (dir / "run"),
                               "--set", "train.mode=sync", "--set", "train.replicas=4", "--set",
                               "data.shard_records=100000", "--set", "train.epochs=1"},
                              dir.path())
                          .wait(60);
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.err.find("the data have 1 shard, so only as many of the 4 replicas take part") !=
        std::string::npos);
}

TEST_CASE("a worker reads the shards of all replicas, however different their lengths are",
          "[integration]") {
  const ScratchDir dir;
  std::filesystem::create_directory(dir / "f");
  for (int file = 0; file < 7; ++file) {
    std::string text;
    for (int i = 0; i < (file < 3 ? 4000 : 40); ++i) text += std::to_string(i % 2) + " 1:0.5\n";
    dir.write("f/" + std::to_string(file) + ".svm", text);
  }
  dir.write("job.toml",
            "run_dir = \"run\"\npartitions = 16\n"
            "data = { source = \"f/*.svm\", format = \"libsvm\", shard_records = 100000 }\n"
            "model.preset = \"logistic_regression\"\n"
            "train = { mode = \"sync\", replicas = 3, batch_size = 20 }\n");
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    const Ended ended = Program("downpour",
                                {"train", dir / "job.toml", "--fresh", "--seed", seed, "--ps", "1",
                                 "--workers", "1", "--quiet"},
                                dir.path())
                            .wait(30);
    INFO("seed " << seed << ": " << ended.err);
    CHECK(ended.status == 0);
  }
}

}  // namespace downpour::testing
