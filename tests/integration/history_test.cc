// The history of a run: history.jsonl, and the verbs runs, compare and plot.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Runs `downpour` in the folder.
Ended run(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  fs::current_path(dir.path());
  return Program("downpour", arguments, dir.path()).wait(120);
}

void write_clicks(const ScratchDir& dir) {
  REQUIRE(run(dir, {"synth", "clicks.tsv", "--rows", "4000", "--ids", "20"}).status == 0);
}

std::vector<Json> lines_of(const std::string& path) {
  std::istringstream text(read_text(path));
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

void check_epochs(const std::vector<Json>& lines, uint32_t count) {
  REQUIRE(lines.size() == count);
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(lines[i]["epoch"] == i + 1);
    CHECK(lines[i]["train"]["logloss"].get<double>() > 0);
    CHECK(lines[i]["eval"]["auc"].get<double>() > 0.4);
    CHECK(lines[i]["steps"].get<uint64_t>() == (i + 1) * lines[0]["steps"].get<uint64_t>());
  }
}

TEST_CASE("history.jsonl has a line per epoch, also after a resume", "[integration]") {
  const ScratchDir dir;
  write_clicks(dir);
  const std::string path = dir / "runs/clicks/history.jsonl";
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "2", "--quiet"}).status == 0);
  const std::string two = read_text(path);
  check_epochs(lines_of(path), 2);
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "4", "--quiet"}).status == 0);
  check_epochs(lines_of(path), 4);
  CHECK(read_text(path).starts_with(two));

  // A chief that died between the checkpoint and the history leaves an older file.
  const std::string four = read_text(path);
  std::ofstream(path) << two;
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "4", "--quiet"}).status == 0);
  CHECK(read_text(path) == four);

  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "1", "--fresh", "--quiet"}).status == 0);
  check_epochs(lines_of(path), 1);
}

TEST_CASE("a killed chief loses and doubles no line", "[integration]") {
  const ScratchDir dir;
  write_clicks(dir);
  const std::string path = dir / "runs/clicks/history.jsonl";
  const std::vector<std::string> train = {"train", "clicks.tsv", "--set",
                                          "eval.early_stop.patience=0", "--epochs"};
  for (const char* epochs : {"400", "800"}) {
    std::vector<std::string> arguments = train;
    arguments.emplace_back(epochs);
    Program program("downpour", arguments, dir.path());
    REQUIRE(program.saw("epoch 3"));
    program.signal(SIGKILL);
    program.wait();
  }
  const size_t before = lines_of(path).size();
  CHECK(before >= 2);
  std::vector<std::string> arguments = train;
  arguments.push_back(std::to_string(before + 3));
  REQUIRE(run(dir, arguments).status == 0);
  check_epochs(lines_of(path), uint32_t(before + 3));
}

TEST_CASE("runs, compare and plot show two runs", "[integration]") {
  const ScratchDir dir;
  write_clicks(dir);
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "2", "--quiet"}).status == 0);
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "1", "--quiet", "--set", "run_dir=runs/a<b",
                    "--set", "train.batch_size=128"})
              .status == 0);
  const Ended listed = run(dir, {"runs"});
  INFO(listed.err);
  REQUIRE(listed.status == 0);
  CHECK(listed.out.find("runs/clicks") != std::string::npos);
  CHECK(listed.out.find("2 of 2") != std::string::npos);
  CHECK(listed.out.find("finished") != std::string::npos);
  const Json runs = Json::parse(run(dir, {"runs", "--json"}).out);
  REQUIRE(runs.size() == 2);
  CHECK(runs[1]["model"] == "wide_deep");

  const Ended compared = run(dir, {"compare", "runs/clicks", "runs/a<b"});
  REQUIRE(compared.status == 0);
  CHECK(compared.out.find("train.batch_size") != std::string::npos);
  CHECK(compared.out.find("eval auc") != std::string::npos);

  REQUIRE(run(dir, {"plot", "runs/clicks", "runs/a<b", "-o", "both.svg"}).status == 0);
  const std::string svg = read_text(dir / "both.svg");
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.find("runs/a&lt;b") != std::string::npos);
  CHECK(svg.find(">logloss</text>") != std::string::npos);
  CHECK(svg.find(">learning rate</text>") != std::string::npos);
  CHECK(svg.find(">reliability</text>") != std::string::npos);
  REQUIRE(run(dir, {"plot", "runs/clicks/"}).status == 0);
  CHECK(fs::exists(dir / "clicks.svg"));
}

TEST_CASE("a synchronous job that train.steps ends with an epoch is listed as finished",
          "[integration]") {
  const ScratchDir dir;
  write_clicks(dir);
  std::vector<std::string> train = {"train",           "clicks.tsv", "--quiet",          "--set",
                                    "train.mode=sync", "--set",      "train.replicas=2", "--fresh",
                                    "--log-format",    "json"};
  const auto trained = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = train;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(dir, arguments);
    INFO(ended.err);
    REQUIRE(ended.status == 0);
    return Json::parse(ended.out);
  };
  const Json epoch = trained({"--epochs", "1"});
  const std::string steps = std::to_string(epoch["steps_counted"].get<uint64_t>());
  trained({"--epochs", "5", "--steps", steps});
  const std::vector<Json> lines = lines_of(dir / "runs/clicks/history.jsonl");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["steps_counted"] == epoch["steps_counted"]);
  CHECK(lines[0]["steps"].get<uint64_t>() > lines[0]["steps_counted"].get<uint64_t>());
  CHECK(run(dir, {"runs"}).out.find("finished") != std::string::npos);
}

TEST_CASE("precision and recall agree with the accuracy, also with an offset", "[integration]") {
  const ScratchDir dir;
  write_clicks(dir);
  double records = 0, positives = 0;
  std::istringstream text(read_text(dir / "clicks.tsv"));
  for (std::string line; std::getline(text, line); ++records) positives += line[0] == '1' ? 1 : 0;
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "2", "--quiet"}).status == 0);
  const Ended ended =
      run(dir, {"eval", "runs/clicks", "--data", "clicks.tsv", "--log-format", "json"});
  REQUIRE(ended.status == 0);
  const Json metrics = Json::parse(ended.out)["evaluations"][0]["outputs"].begin().value();
  const double precision = metrics["precision"], recall = metrics["recall"];
  const double wrong = positives * (1 - recall) + positives * recall * (1 / precision - 1);
  CHECK(metrics["accuracy"].get<double>() == Approx(1 - wrong / records));
  CHECK(metrics["f1"].get<double>() == Approx(2 * precision * recall / (precision + recall)));
  CHECK(metrics["pr_auc"].get<double>() > positives / records);
  CHECK(metrics["normalized_entropy"].get<double>() < 1);
  const Json reliability = Json::parse(ended.out)["evaluations"][0]["reliability"];
  REQUIRE(reliability.size() == 1);
  double counted = 0, observed = 0;
  for (const Json& bin : reliability.begin().value()) {
    counted += bin[2].get<double>();
    observed += bin[1].get<double>() * bin[2].get<double>();
  }
  CHECK(counted == records);
  CHECK(observed == Approx(positives));
}

TEST_CASE("a running run is listed as running, and a wrong folder is named", "[integration]") {
  const ScratchDir dir;
  write_clicks(dir);
  Program program(
      "downpour",
      {"train", "clicks.tsv", "--epochs", "4000", "--set", "eval.early_stop.patience=0"},
      dir.path());
  REQUIRE(program.saw("epoch 1"));
  CHECK(run(dir, {"runs"}).out.find("running") != std::string::npos);
  program.signal(SIGINT);
  program.wait();
  CHECK(run(dir, {"runs"}).out.find("stopped") != std::string::npos);

  const Ended absent = run(dir, {"compare", "runs/clicks", "runs/nothing"});
  CHECK(absent.status == 66);
  CHECK(absent.err.find("runs/nothing") != std::string::npos);
  CHECK(run(dir, {"runs", "absent"}).status == 66);
  CHECK(run(dir, {"compare", "runs/clicks"}).status == 64);
  const Ended named = run(dir, {"plot", "runs/clicks", "-o", "x.png"});
  CHECK(named.status == 64);
  CHECK(named.err.find("x.png") != std::string::npos);
}

}  // namespace
}  // namespace downpour::testing
