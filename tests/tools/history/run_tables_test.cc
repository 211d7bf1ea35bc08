#include "tools/history/run_tables.h"

#include <filesystem>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/scratch_dir.h"

namespace downpour::tools {
namespace {

using downpour::testing::ScratchDir;

chief::HistoryLine line_of(uint32_t epoch, double loss, double auc) {
  return {.epoch = epoch,
          .steps = epoch * 100,
          .records = 1000,
          .seconds = 1.5,
          .learning_rate = 0.1,
          .train = {{"loss", loss}, {"logloss", loss}},
          .eval_records = 100,
          .eval = {{"loss", loss}, {"auc", auc}, {"logloss", loss}}};
}

RunOverview run_of(const std::string& folder) {
  RunOverview run{.folder = folder};
  run.state = RunState::kFinished;
  run.job.model.preset = "wide_deep";
  run.job.model.outputs = {{.name = "click", .loss = "logistic"}};
  run.job.train.epochs = 3;
  run.lines = {line_of(1, 0.5, 0.7), line_of(2, 0.4, 0.8), line_of(3, 0.45, 0.9)};
  return run;
}

TEST_CASE("the result of a run is the epoch whose model eval and predict use", "[history]") {
  RunOverview run = run_of("runs/a");
  REQUIRE(run.best() != nullptr);
  CHECK(run.best()->epoch == 2);
  CHECK(run.result()->epoch == 3);  // the best epoch is not kept
  run.job.eval.early_stop.metric = "auc";
  CHECK(run.best()->epoch == 3);
  // The rule has changed after an epoch was kept.
  run.kept_epoch = 2;
  CHECK(run.best()->epoch == 2);
  CHECK(run.result()->epoch == 2);
  CHECK(compare_text(std::vector{run}).find("2 (best)") != std::string::npos);
  run.kept_epoch = 0;
  CHECK(compare_text(std::vector{run}).find("3 (last)") != std::string::npos);
  for (chief::HistoryLine& line : run.lines) line.eval.clear();
  CHECK(run.best() == nullptr);
  CHECK(run.result()->epoch == 3);
  run.lines.clear();
  CHECK(run.result() == nullptr);
}

TEST_CASE("a folder with a run of the name `run` is not a run itself", "[history]") {
  const ScratchDir dir;
  std::filesystem::create_directories(dir / "jobs/run");
  dir.write("jobs/run/run", "the file of the run");
  CHECK(is_run_folder(dir / "jobs/run"));
  CHECK_FALSE(is_run_folder(dir / "jobs"));
}

TEST_CASE("the list of runs shows epochs, the best evaluation and the state", "[history]") {
  const std::string text = runs_text(std::vector{run_of("runs/a")});
  CAPTURE(text);
  CHECK(text.find("wide_deep") != std::string::npos);
  CHECK(text.find("3 of 3") != std::string::npos);
  CHECK(text.find("logloss 0.4000 at epoch 2") != std::string::npos);
  CHECK(text.find("finished") != std::string::npos);
}

TEST_CASE("a comparison shows only keys that differ, and a squared loss as an rmse", "[history]") {
  std::vector runs = {run_of("runs/a"), run_of("runs/b")};
  runs[1].job.train.batch_size = 64;
  runs[1].job.run_dir = "/other";
  for (RunOverview& run : runs) {
    run.job.model.outputs[0].loss = "squared";
    for (chief::HistoryLine& line : run.lines) line.eval = {{"loss", 4.0}, {"rmse", 2.0}};
  }
  const std::string text = compare_text(runs);
  CAPTURE(text);
  CHECK(text.find("train.batch_size") != std::string::npos);
  CHECK(text.find("run_dir") == std::string::npos);
  CHECK(text.find("train.epochs") == std::string::npos);
  CHECK(text.find("eval rmse") != std::string::npos);
  CHECK(text.find("eval loss") == std::string::npos);
  const auto json = compare_json(runs);
  CHECK(json["differing_keys"]["train.batch_size"] == std::vector<std::string>{"512", "64"});
  CHECK(json["runs"][1]["eval"]["rmse"] == 2.0);
}

TEST_CASE("a chart has a panel for each figure, and one for the learning rate", "[history]") {
  std::vector runs = {run_of("runs/a"), run_of("runs/b")};
  runs[1].job.eval.metrics = {"auc"};
  runs[0].job.eval.metrics = {"logloss"};
  const Chart chart = chart_of(runs);
  std::vector<std::string> titles;
  for (const ChartPanel& panel : chart.panels) titles.push_back(panel.title);
  CHECK(titles == std::vector<std::string>{"logloss", "auc", "learning rate"});
  CHECK(chart.panels[0].series.size() == 4);
  CHECK(chart.panels[1].series.size() == 1);  // not of the first run, and none of the training
  CHECK(chart.legend.size() == 4);
}

TEST_CASE("a chart shows how often the probabilities of the best epoch are right", "[history]") {
  std::vector runs = {run_of("runs/a"), run_of("runs/b")};
  runs[0].kept_epoch = 2;
  runs[0].lines[1].reliability = {{"click", {{0.1, 0.125, 8}, {0.75, 0.5, 2}}}};
  runs[0].lines[2].reliability = {{"click", {{0.5, 0.5, 10}}}};  // of an epoch that is not the best
  const Chart chart = chart_of(runs);
  const ChartPanel& panel = chart.panels.back();
  CHECK(panel.title == "reliability");
  REQUIRE(panel.series.size() == 2);
  REQUIRE(panel.series[0].points.size() == 2);
  CHECK(panel.series[0].points[1].x == 0.75);
  CHECK(panel.series[0].points[1].y == 0.5);
  CHECK(panel.series[1].points[1].x == 0.75);  // the line on which probabilities are right
  const std::string svg = to_svg(chart);
  CHECK(svg.find(">predicted probability</text>") != std::string::npos);
  CHECK(svg.find(">0.2</text>") != std::string::npos);
}

TEST_CASE("a copy of a run without checkpoints is read from its job and its history", "[history]") {
  const ScratchDir dir;
  PosixStorage storage;
  CHECK(read_run_overview(storage, dir.path()).error().code == ErrorCode::kNoInput);
  dir.write("job.toml",
            "name = \"a\"\n[data]\nsource = \"x.libsvm\"\nformat = \"libsvm\"\n"
            "[model]\npreset = \"logistic_regression\"\n");
  dir.write("history.jsonl", chief::history_text(run_of("a").lines));
  const auto run = read_run_overview(storage, dir.path());
  INFO((run ? "" : run.error().what));
  REQUIRE(run);
  CHECK(run->lines == run_of("a").lines);
  CHECK(run->state == RunState::kStopped);
  dir.write("history.jsonl", "{\"epoch\":1}\n{broken\n");
  const auto broken = read_run_overview(storage, dir.path());
  REQUIRE(!broken);
  CHECK(broken.error().where == dir / "history.jsonl:2");
}

}  // namespace
}  // namespace downpour::tools
