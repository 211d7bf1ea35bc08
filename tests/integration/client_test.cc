// A program that computes its own model, on the C interface: the example of
// docs/examples/own-model.
#include <filesystem>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

TEST_CASE("two programs train the variables of a job, and each record counts once") {
  const ScratchDir dir;
  std::string records;
  for (int i = 0; i < 6000; ++i)
    records += i % 3 == 0
                   ? "1 " + std::to_string(i % 50) + ":1 60:1\n"
                   : "-1 " + std::to_string(i % 50) + ":1 " + std::to_string(70 + i % 9) + ":1\n";
  dir.write("train.svm", records);
  dir.write("job.toml",
            "data = { source = \"train.svm\", format = \"libsvm\", shard_records = 500 }\n"
            "optimizer = { type = \"adagrad\", learning_rate = 0.5 }\n"
            "train = { epochs = 3, batch_size = 50 }\n"
            "eval = { holdout = 0.1 }\n"
            "[model]\n"
            "variables = [{ name = \"weights\", fields = [\"features\"], dim = 1 }, { name = "
            "\"bias\", shape = [1] }]\n"
            "outputs = [{ name = \"p\", loss = \"logistic\", target = \"label\" }]\n");
  for (const char* output : {"a", "b", "c", "d"}) std::filesystem::create_directories(dir / output);
  const std::string chief_at = "ipc://" + (dir / "chief");
  Program chief("downpour-chief", {dir / "job.toml", "--bind", chief_at, "--json"}, dir / "a");
  Program ps("downpour-ps", {"--chief", chief_at, "--bind", "ipc://" + (dir / "ps")}, dir / "b");
  Program first("squared_hinge", {chief_at}, dir / "c");
  Program second("squared_hinge", {chief_at}, dir / "d");
  CHECK(first.wait().status == 0);
  CHECK(second.wait().status == 0);
  const Ended ended = chief.wait();
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const Json done = Json::parse(ended.out);
  REQUIRE(done["accounts"].size() == 3);
  for (const Json& account : done["accounts"]) {
    CHECK(account["read"] == 6000);
    CHECK(account["applied"].get<int>() + account["filtered"].get<int>() == 6000);
  }
  CHECK(done["evaluations"].back()["outputs"]["p"]["auc"] > 0.99);
  CHECK(ps.wait().status == 0);
}

TEST_CASE("a program without a chief says so") {
  const ScratchDir dir;
  const Ended ended = Program("squared_hinge", {"127.0.0.1:1"}, dir.path()).wait();
  CHECK(ended.status == 77);
  CHECK_THAT(ended.err, Catch::Contains("can't start: ") && Catch::Contains("key"));
}

}  // namespace
}  // namespace downpour::testing
