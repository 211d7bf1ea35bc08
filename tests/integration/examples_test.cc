// The examples about input, run as a user does, on data that Downpour or the test makes.
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/data/formats/example/tfrecord_writer.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;
constexpr int kRows = 4000;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  Ended ended = Program("downpour", arguments, dir.path()).wait(120);
  INFO(ended.err);
  CHECK(ended.status == 0);
  return ended;
}

/// Trains an example with the additional arguments `more`, and returns the final summary.
Json trained(const ScratchDir& dir, const std::string& example,
             const std::vector<std::string>& more) {
  INFO(example);
  std::vector<std::string> arguments = {
      "train",        std::string(DP_SOURCE_DIR) + "/docs/examples/" + example + ".toml",
      "--fresh",      "--quiet",
      "--log-format", "json",
      "--set",        "run_dir=" + (dir / "run")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended ended = downpour(dir, arguments);
  REQUIRE(ended.status == 0);
  return Json::parse(ended.out);
}

/// Makes clicks in four files, and returns a glob of them.
std::string make_clicks(const ScratchDir& dir) {
  downpour(dir, {"synth", dir / "clicks.tsv", "--rows", std::to_string(kRows)});
  downpour(dir, {"shard", dir / "clicks.tsv", "-o", dir / "parts", "-n", "4"});
  return dir / "parts/*.tsv";
}

TEST_CASE("the JSON lines example reads nested members and the records that pass its filter",
          "[integration]") {
  const ScratchDir dir;
  std::string text;
  int wanted = 0;
  for (int i = 0; i < kRows; ++i) {
    const bool here = i % 5 != 0, adult = i % 3 != 0;
    wanted += here && adult;
    text += "{\"label\": " + std::to_string(i % 2) +
            ", \"user\": {\"age\": " + (adult ? "30" : "17") + ", \"country\": \"" +
            (here ? "DE" : "XX") + "\"}, \"tags\": [\"a\", \"t" + std::to_string(i % 50) + "\"]}\n";
  }
  dir.write("clicks.jsonl", text);
  const Json summary =
      trained(dir, "json-lines", {"--set", "data.source=" + (dir / "clicks.jsonl")});
  const Json& account = summary["accounts"][0];
  CHECK(account["applied"] == wanted);
  CHECK(account["filtered"] == kRows - wanted);
}

TEST_CASE("the TFRecord example reads Examples with a serialized tensor and a bag of words",
          "[integration]") {
  const ScratchDir dir;
  std::string file;
  data::ExampleBuilder example;
  const int64_t dims[] = {128};
  for (int64_t i = 0; i < kRows; ++i) {
    std::vector<float> image(128, 0.0F);
    image[size_t(i % 10)] = 1;
    const std::string tensor = data::serialized_tensor(
        data::TensorType::kFloat, dims,
        {reinterpret_cast<const char*>(image.data()), image.size() * sizeof(float)});
    const std::string_view bytes[] = {tensor}, tags[] = {"even", "odd"};
    example.clear();
    example.add("image", bytes);
    example.add("item/tags", std::span(tags).subspan(size_t(i % 2), 1));
    const int64_t label[] = {i % 10};
    example.add("label", label);
    data::append_frame(file, example.bytes());
  }
  dir.write("train-0.tfrecord", file);
  const Json summary =
      trained(dir, "tfrecord",
              {"--set", "data.source=" + (dir / "train-0.tfrecord"), "--set", "eval.holdout=0.1"});
  for (const Json& account : summary["accounts"]) CHECK(account["skipped"] == 0);
  CHECK(summary["evaluations"].back()["outputs"]["class"]["accuracy"] > 0.9);
}

TEST_CASE("the sharding examples apply every record as often as they state", "[integration]") {
  const ScratchDir dir;
  const std::string clicks = make_clicks(dir);
  for (const std::string policy : {"auto", "file", "data", "off"}) {
    const Json summary = trained(dir, "sharding-" + policy, {"--set", "data.source=" + clicks});
    CHECK(summary["sharding"].get<std::string>().starts_with("sharding = \"" + policy + "\""));
    for (const Json& account : summary["accounts"])
      CHECK(account["applied"] == kRows * (policy == "off" ? 2 : 1));
  }
}

TEST_CASE(
    "the splits of the source-part example contain every record once, except the evaluated ones",
    "[integration]") {
  const ScratchDir dir;
  const std::string clicks = make_clicks(dir);
  uint64_t applied = 0;
  for (const int part : {0, 1, 2}) {
    const std::string source = "data.source.", index = std::to_string(part);
    const Json summary =
        trained(dir, "source-part",
                {"--set", source + "path=" + clicks, "--set", source + "shard.count=3", "--set",
                 source + "shard.index=" + index, "--set", "eval.source.path=" + clicks, "--seed",
                 std::to_string(10 + part)});
    CHECK(summary["accounts"][0]["read"] == 1000);
    CHECK(summary["evaluations"][0]["records"] == 1000);
    applied += summary["accounts"][0]["applied"].get<uint64_t>();
  }
  CHECK(applied == kRows - 1000);
}

TEST_CASE(
    "the interleave example applies every record once, and the steps example only some of them",
    "[integration]") {
  const ScratchDir dir;
  const std::string clicks = make_clicks(dir);
  const Json joined = trained(dir, "interleave", {"--set", "data.source=" + clicks});
  CHECK(joined["accounts"][0]["applied"] == kRows);
  const Json part = trained(dir, "steps", {"--set", "data.source=" + clicks, "--steps", "12"});
  CHECK(part["steps"] >= 12);
  CHECK(part["accounts"].size() == 1);
  CHECK(part["accounts"][0]["applied"] < kRows);
  CHECK(part["accounts"][0]["shards_left"] > 0);
}

TEST_CASE("the DCN-V2 and DLRM examples train and evaluate", "[integration]") {
  const ScratchDir dir;
  downpour(dir, {"synth", dir / "clicks.tsv", "--rows", "20000", "--ids", "50"});
  downpour(dir, {"synth", dir / "dev.tsv", "--rows", "2000", "--ids", "50", "--stream", "1"});
  for (const std::string example : {"dcn-v2", "dlrm"}) {
    const Json summary = trained(dir, example,
                                 {"--set", "data.source=" + (dir / "clicks.tsv"), "--set",
                                  "eval.source=" + (dir / "dev.tsv")});
    CHECK(summary["evaluations"].back()["outputs"]["probability"]["auc"] > 0.7);
  }
}

TEST_CASE("the mix example reads its sources in the shares of their weights", "[integration]") {
  const ScratchDir dir;
  downpour(dir, {"synth", dir / "eu.tsv", "--rows", "3000"});
  downpour(dir, {"synth", dir / "us.tsv", "--rows", "1000", "--stream", "1"});
  const Json summary = trained(dir, "mix",
                               {"--set", "data.source[0].path=" + (dir / "eu.tsv"), "--set",
                                "data.source[1].path=" + (dir / "us.tsv")});
  for (const Json& account : summary["accounts"]) {
    const int applied = account["applied"];
    CHECK(applied > 3800);  // about 3,000 / 0.7: the first source ends the epoch
    CHECK(applied < 4700);
    CHECK(account["unread_bytes"][0] == 0);
    CHECK(account["unread_bytes"][1] > 0);
  }
}

TEST_CASE("the arrays example trains on folders that downpour shard has written", "[integration]") {
  constexpr int kArrayRows = 300;
  const ScratchDir dir;
  std::string text;
  const auto numbers = [](int count, int seed) {
    std::string list = "[";
    for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + std::to_string((seed + i) % 2);
    return list + "]";
  };
  for (int i = 0; i < kArrayRows; ++i) {
    text += "{\"user\":" + numbers(128, i) + ",\"item\":" + numbers(128, i / 2) +
            ",\"context\":" + numbers(16, i) + ",\"rating\":" + std::to_string(i % 5) +
            ",\"genre\":" + numbers(10, i) + "}\n";
  }
  dir.write("rows.jsonl", text);
  downpour(dir, {"shard", dir / "rows.jsonl", "-o", dir / "arrays", "-n", "3", "--to", "npy"});
  const Json summary = trained(dir, "numpy-arrays",
                               {"--set", "data.source=" + (dir / "arrays/*/"), "--epochs", "1"});
  const Json& account = summary["accounts"][0];
  CHECK(account["read"] == kArrayRows);
  CHECK(account["applied"].get<int>() + account["filtered"].get<int>() == kArrayRows);
  CHECK(summary["evaluations"][0]["outputs"]["kinds"]["logloss"].is_number());
  CHECK(summary["evaluations"][0]["outputs"]["stars"]["rmse"].is_number());
}

TEST_CASE("the record-program example drops and makes the records that its program describes",
          "[integration]") {
  const ScratchDir dir;
  std::string text;
  for (int i = 0; i < kRows; ++i) {
    text += "u" + std::to_string(i % 50) + "," + (i % 10 == 0 ? "" : "i" + std::to_string(i % 7)) +
            "," + std::to_string(i * 13 % 9000) + ",0.25," + std::to_string(i % 2) + "\n";
  }
  dir.write("clicks.csv", text);
  const Json summary =
      trained(dir, "record-program", {"--set", "data.source=" + (dir / "clicks.csv")});
  REQUIRE(summary["accounts"].size() == 2);
  for (const Json& account : summary["accounts"]) {
    CHECK(account["read"] == kRows);
    CHECK(account["filtered"] == kRows / 10);
    CHECK(account["applied"] == kRows - kRows / 10);
  }
  const Ended checked = downpour(
      dir, {"data", "validate", std::string(DP_SOURCE_DIR) + "/docs/examples/record-program.toml",
            "--set", "data.source=" + (dir / "clicks.csv"), "--json"});
  CHECK(Json::parse(checked.out)["filtered"] == kRows / 10);
}

}  // namespace
}  // namespace downpour::testing
