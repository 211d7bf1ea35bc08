// Slices and groups of an evaluation: the same figures from several processes and from one.
#include <filesystem>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

Ended run(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  std::filesystem::current_path(dir.path());
  return Program("downpour", arguments, dir.path()).wait(120);
}

/// Compares the metrics of a slice or an output. The predictions are 32-bit floats, whose rounding
/// depends on the batches.
void check_same(const Json& a, const Json& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, value] : a.items()) {
    CAPTURE(name);
    if (name == "value") {
      CHECK(value == b[name]);
    } else {
      CHECK(value.get<double>() == Approx(b[name].get<double>()).epsilon(1e-8));
    }
  }
}

TEST_CASE("workers and input processes measure the same slices and groups as one process",
          "[integration]") {
  const ScratchDir dir;
  REQUIRE(run(dir, {"synth", "clicks.tsv", "--rows", "6000", "--ids", "30"}).status == 0);
  REQUIRE(
      run(dir, {"synth", "test.tsv", "--rows", "3000", "--ids", "30", "--stream", "1"}).status ==
      0);
  const Ended trained =
      run(dir, {"train", "clicks.tsv", "--epochs", "1", "--workers", "2", "--set",
                "cluster.input_workers=1", "--set", "eval.source=test.tsv", "--set",
                "data.shard_records=500", "--set", "eval.holdout=0", "--set",
                "eval.slices=[{field=\"C1\", top=4}, \"C2\"]", "--set", "eval.group_by=C3"});
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(trained.out.find("(others)") != std::string::npos);
  std::istringstream text(read_text(dir / "runs/clicks/history.jsonl"));
  std::string last;
  for (std::string line; std::getline(text, line);) last = line;
  const Json line = Json::parse(last);
  CHECK(line["eval_records"] == 3000);
  for (const Json& slice : line["slices"]["C1"]) {
    if (slice["value"].is_null()) continue;
    CHECK(trained.out.find("\n" + slice["value"].get<std::string>() + " ") != std::string::npos);
  }
  CHECK(line["slices"]["C1"].size() == 5);
  CHECK(line["slices"]["C1"][4]["value"].is_null());
  for (const char* field : {"C1", "C2"}) {
    double records = 0, loss = 0;
    for (const Json& slice : line["slices"][field]) {
      records += slice["weight"].get<double>();
      loss += slice["weight"].get<double>() * slice["logloss"].get<double>();
    }
    CHECK(records == 3000);
    CHECK(loss / records == Approx(line["eval"]["logloss"].get<double>()).epsilon(1e-9));
  }
  const Ended evaluated = run(dir, {"eval", "runs/clicks", "--log-format", "json"});
  REQUIRE(evaluated.status == 0);
  const Json evaluation = Json::parse(evaluated.out)["evaluations"][0];
  for (const char* field : {"C1", "C2"}) {
    REQUIRE(evaluation["slices"][field].size() == line["slices"][field].size());
    for (size_t i = 0; i < evaluation["slices"][field].size(); ++i)
      check_same(line["slices"][field][i], evaluation["slices"][field][i]);
  }
  const Json metrics = evaluation["outputs"].begin().value();
  for (const char* name : {"gauc", "ndcg"})
    CHECK(metrics[name].get<double>() == Approx(line["eval"][name].get<double>()).epsilon(1e-8));
  CHECK(metrics["gauc"].get<double>() > 0.5);
}

TEST_CASE("eval shows the slices of a run that was trained without them", "[integration]") {
  const ScratchDir dir;
  REQUIRE(run(dir, {"synth", "clicks.tsv", "--rows", "3000", "--ids", "5"}).status == 0);
  REQUIRE(run(dir, {"train", "clicks.tsv", "--epochs", "1", "--quiet"}).status == 0);
  const Ended ended = run(dir, {"eval", "runs/clicks", "--data", "clicks.tsv", "--slice", "C1",
                                "--slice", "C4", "--log-format", "json"});
  REQUIRE(ended.status == 0);
  const Json slices = Json::parse(ended.out)["evaluations"][0]["slices"];
  CHECK(slices.size() == 2);
  CHECK(slices["C1"].size() >= 2);
  const Ended wrong = run(dir, {"eval", "runs/clicks", "--data", "clicks.tsv", "--slice", "C99"});
  CHECK(wrong.status == 78);
  CHECK(wrong.err.find("there is no field `C99`") != std::string::npos);
}

}  // namespace
}  // namespace downpour::testing
