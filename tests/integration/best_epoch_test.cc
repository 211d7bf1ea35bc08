// The best epoch of a run: the model that eval and predict use, also after a resume by other rules.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A run of a file on which the model overfits: with 10,000 ids for each column and only 3,000 rows
/// the evaluation loss grows after the fourth epoch.
struct Run {
  Run() {
    fs::current_path(dir.path());
    REQUIRE(program({"synth", "few.tsv", "--rows", "3000", "--ids", "10000"}).status == 0);
  }
  Ended program(const std::vector<std::string>& arguments) const {
    return Program("downpour", arguments, dir.path()).wait(120);
  }
  Json json(std::vector<std::string> arguments) const {
    for (const char* flag : {"--log-format", "json", "--quiet"}) arguments.emplace_back(flag);
    const Ended ended = program(arguments);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return Json::parse(ended.out);
  }
  /// Early stopping is off: which epoch is the best depends on the order of asynchronous updates,
  /// and a run that stopped early would train nothing more.
  Json train(int epochs, const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> arguments = {"train",    "few.tsv",
                                          "--epochs", std::to_string(epochs),
                                          "--set",    "eval.early_stop.patience=0"};
    for (const std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back(setting);
    }
    return json(arguments);
  }
  /// Checks that eval, runs and compare show the evaluation that `done` names as the model's.
  void check_model(const Json& done) const {
    const Json& evaluations = done["evaluations"];
    const bool kept = !done["best_checkpoint"].is_null();
    const size_t epoch = kept ? done["best_epoch"].get<size_t>() : evaluations.size();
    REQUIRE(epoch >= 1);
    REQUIRE(epoch <= evaluations.size());
    CAPTURE(done["best_checkpoint"], epoch);
    const double loss = loss_of(evaluations[epoch - 1]);
    CHECK(loss_of(json({"eval", "runs/few"})["evaluations"][0]) == Approx(loss).epsilon(1e-6));
    const Ended listed = program({"runs", "--json"});
    CHECK(Json::parse(listed.out)[0]["epochs_trained"] == epoch);
    CHECK(Json::parse(listed.out)[0]["eval"]["loss"] == Approx(loss).epsilon(1e-6));
  }
  /// Changes a byte of each image of a checkpoint.
  void damage(std::string checkpoint) const {
    std::ranges::replace(checkpoint, '.', '-');
    const fs::path folder = fs::path(dir.path()) / "runs/few/checkpoints" / checkpoint;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5000);
      const int byte = file.peek();
      file.put(char(byte ^ 1));
    }
  }
  static double loss_of(const Json& evaluation) {
    return evaluation["outputs"].items().begin().value()["loss"];
  }

  ScratchDir dir;
};

TEST_CASE("without keep_best the model of a resumed run is that of its last epoch",
          "[integration]") {
  const Run run;
  const Json first = run.train(6);
  REQUIRE(first["best_epoch"] < 6);
  run.check_model(first);
  const Json second = run.train(7, {"eval.keep_best=false"});
  CHECK(second["best_checkpoint"].is_null());
  run.check_model(second);
  // The best of the epochs whose variables still exist counts.
  const Json third = run.train(8);
  CHECK(third["best_checkpoint"].is_string());
  run.check_model(third);
}

TEST_CASE("another metric chooses among the epochs whose variables still exist", "[integration]") {
  const Run run;
  const Json first = run.train(6);
  REQUIRE(first["best_epoch"] < 6);
  run.check_model(first);
  for (const char* metric : {"auc", "loss"}) {
    const std::string rule = std::string("eval.early_stop.metric=") + metric;
    run.check_model(run.train(std::string("auc") == metric ? 7 : 8, {rule}));
  }
  // A run that is already finished keeps its model, whatever the rule is.
  const Json again = run.train(8, {"eval.early_stop.metric=auc"});
  run.check_model(again);
}

TEST_CASE("evaluations of records held out of other files are not compared", "[integration]") {
  const Run run;
  REQUIRE(run.program({"synth", "more.tsv", "--rows", "3000", "--ids", "10000", "--seed", "2"})
              .status == 0);
  REQUIRE(run.program({"init", "few.tsv", "--out", "few.toml"}).status == 0);
  const auto train = [&](const char* epochs, const char* source) {
    return run.json({"train", "few.toml", "--epochs", epochs, "--set", "eval.early_stop.patience=0",
                     "--set", std::string("data.source=") + source});
  };
  REQUIRE(train("6", "few.tsv")["best_epoch"] < 6);
  const Json other = train("7", "more.tsv");
  CHECK(other["best_epoch"] == 7);
  run.check_model(other);
  // A file that grows has more records held out.
  std::ofstream(fs::path(run.dir.path()) / "more.tsv", std::ios::app)
      << std::ifstream(fs::path(run.dir.path()) / "few.tsv").rdbuf();
  CHECK(train("8", "more.tsv")["best_epoch"] == 8);
}

TEST_CASE("a finished run refuses other data unless it is to train on them", "[integration]") {
  const Run run;
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", "few.tsv", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run.program(arguments);
  };
  REQUIRE(train({"--epochs", "2"}).status == 0);
  CHECK(train({"--epochs", "2"}).status == 0);  // there is nothing to do
  REQUIRE(run.program({"synth", "few.tsv", "--rows", "2500", "--seed", "2"}).status == 0);
  const Ended refused = train({"--epochs", "2"});
  CHECK(refused.status == 78);
  CHECK(refused.err.find("the run is finished, and was trained on other data") !=
        std::string::npos);
  CHECK(refused.err.find("few.tsv has") != std::string::npos);
  CHECK(refused.err.find("--epochs N") != std::string::npos);
  CHECK(train({"--epochs", "3"}).status == 0);
  CHECK(train({"--epochs", "3"}).status == 0);
}

TEST_CASE("a run that stopped early continues with other data", "[integration]") {
  const Run run;
  const auto train = [&] {
    return run.json({"train", "few.tsv", "--set", "eval.early_stop.patience=1"});
  };
  const Json first = train();
  REQUIRE(first["stopped_early"] == true);
  CHECK(train()["evaluations"].size() == first["evaluations"].size());
  REQUIRE(run.program({"synth", "few.tsv", "--rows", "2500", "--seed", "2"}).status == 0);
  const Json second = train();
  CHECK(second["evaluations"].size() > first["evaluations"].size());
  CHECK(second["best_epoch"] > first["evaluations"].size());
}

TEST_CASE("eval reads the records as the job of the best checkpoint does", "[integration]") {
  const ScratchDir dir;
  std::string rows = "a,y\n";
  for (int i = 0; i < 1200; ++i)
    rows += std::to_string(i * 37 % 100 / 10.0) + (i * 37 % 100 + i % 23 > 60 ? ",1\n" : ",0\n");
  dir.write("d.csv", rows);
  dir.write("j.toml",
            "run_dir = \"run\"\ndata.source = \"d.csv\"\n"
            "model = { preset = \"logistic_regression\", target = \"y\" }\n"
            "eval = { holdout = 0.2, keep_best = true }\n[data.fields]\na = {}\ny = {}\n");
  const auto json = [&](std::vector<std::string> arguments) {
    for (const char* flag : {"--log-format", "json", "--quiet"}) arguments.emplace_back(flag);
    const Ended ended = Program("downpour", arguments, dir.path()).wait(60);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return Json::parse(ended.out);
  };
  json({"train", dir / "j.toml", "--epochs", "3"});
  const Json other = json({"train", dir / "j.toml", "--epochs", "4", "--set",
                           "data.fields.a.transform=[{op=\"clip\",min=50}]"});
  const size_t best = other["best_epoch"];
  REQUIRE(best <= 3);
  CHECK(Run::loss_of(json({"eval", dir / "run"})["evaluations"][0]) ==
        Approx(Run::loss_of(other["evaluations"][best - 1])).epsilon(1e-6));
}

TEST_CASE("the job of a run folder continues the run of that folder", "[integration]") {
  const Run run;
  const auto epochs_of = [&](const char* folder) {
    return Json::parse(run.program({"inspect", folder, "--json"}).out)["sealed_epochs"];
  };
  run.train(1);
  fs::copy(fs::path(run.dir.path()) / "runs/few", fs::path(run.dir.path()) / "copy",
           fs::copy_options::recursive);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", "copy/job.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run.json(arguments);
  };
  train({"--epochs", "2"});
  CHECK(epochs_of("copy") == 2);
  CHECK(epochs_of("runs/few") == 1);
  train({"--epochs", "2", "--set", "run_dir=other"});
  CHECK(epochs_of("other") == 2);
  fs::remove_all(fs::path(run.dir.path()) / "runs");  // as if the folder had been moved
  train({"--epochs", "3"});
  CHECK(epochs_of("copy") == 3);
  CHECK_FALSE(fs::exists(fs::path(run.dir.path()) / "runs"));
}

TEST_CASE("a damaged best checkpoint is reported, and another model takes its place",
          "[integration]") {
  const Run run;
  const Json first = run.train(6);
  REQUIRE(first["best_epoch"] < 6);
  const std::string best = first["best_checkpoint"];
  run.damage(best);
  const Ended resumed = run.program({"train", "few.tsv", "--epochs", "7", "--set",
                                     "eval.early_stop.patience=0", "--log-format", "json"});
  INFO(resumed.err);
  REQUIRE(resumed.status == 0);
  CHECK(resumed.err.find("the best checkpoint, " + best + ", can't be read") != std::string::npos);
  const Json second = Json::parse(resumed.out);
  CHECK(second["best_checkpoint"] != best);
  run.check_model(second);
}

TEST_CASE("the model of a partial epoch is not that of the whole epoch", "[integration]") {
  const Run run;
  const Json first = run.train(1);
  const int steps = first["accounts"][0]["batches"];
  const Json partial =
      run.json({"train", "few.tsv", "--epochs", "4", "--steps", std::to_string(steps * 3 / 2)});
  REQUIRE(partial["accounts"].size() == 2);
  run.check_model(partial);
  const Json whole = run.train(2);
  CHECK(whole["accounts"].size() == 2);
  run.check_model(whole);
}

}  // namespace
}  // namespace downpour::testing
