// Implicit feedback with real processes: models that learn from positives and the negatives of
// their batches.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "shared/base/rng.h"
#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Json = nlohmann::json;

/// Returns pairs of users and items. A user takes only items of the own taste, of which there are
/// ten, and all items are equally popular.
std::string pairs(int records, uint64_t seed, const char* more = "") {
  Rng rng(seed);
  std::string text;
  for (int i = 0; i < records; ++i) {
    const uint64_t user = rng.below(300), item = 10 * rng.below(20) + user % 10;
    text += "u" + std::to_string(user) + ",i" + std::to_string(item) + more + "\n";
  }
  return text;
}

void write_pairs(const ScratchDir& dir) {
  dir.write("train.csv", "user,item\n" + pairs(9000, 1));
  dir.write("test.csv", "user,item\n" + pairs(3000, 2));
}

/// Returns a job of matrix factorization without a target.
std::string job_text(const std::string& run, const std::string& more = "") {
  return "run_dir = \"" + run +
         "\"\n"
         "[data]\nsource = \"train.csv\"\nformat = \"csv\"\nheader = true\n"
         "shard_records = 1000\n"
         "fields = { user = { type = \"string\" }, item = { type = \"string\" } }\n"
         "negatives = { fields = [\"item\"], per_record = 4 }\n"
         "[model]\npreset = \"matrix_factorization\"\nloss = \"bpr\"\ndim = 8\n"
         "[optimizer]\ntype = \"adagrad\"\nlearning_rate = 0.2\n"
         "[train]\nepochs = 5\nbatch_size = 100\nreduction = \"sum\"\n"
         "[eval]\nsource = \"test.csv\"\n" +
         more;
}

Ended run(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  std::filesystem::current_path(dir.path());
  return Program("downpour", arguments, dir.path()).wait(180);
}

/// Trains job.toml with these flags, and returns the summary.
Json trained(const ScratchDir& dir, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> arguments = {"train", "job.toml", "--quiet", "--log-format", "json"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Ended ended = run(dir, arguments);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return Json::parse(ended.out);
}

double auc_of(const Json& summary) {
  return summary["evaluations"].back()["outputs"]["score"]["auc"].get<double>();
}

std::string predictions(const ScratchDir& dir, const std::string& run_dir) {
  const Ended ended = run(dir, {"predict", run_dir, "--data", "test.csv", "--quiet"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return ended.out;
}

TEST_CASE("matrix factorization learns tastes from positives, which popularity does not explain",
          "[integration]") {
  const ScratchDir dir;
  write_pairs(dir);
  dir.write("job.toml", job_text("run"));
  const Json bpr = trained(dir);
  // Two random items are of the same taste in a tenth of the draws, and then no model knows the
  // positive.
  CHECK(auc_of(bpr) > 0.93);
  CHECK(auc_of(bpr) < 0.96);
  CHECK(bpr["accounts"][0]["applied"] == 9000);
  CHECK(bpr["evaluations"].back()["records"] == 3000);

  CHECK(auc_of(trained(dir, {"--fresh", "--set", "model.loss=sampled_softmax"})) > 0.93);
  const Json popularity = trained(dir, {"--fresh", "--set", "model.preset=wide_deep", "--set",
                                        "model.dim=8", "--set", "model.inputs=[\"item\"]"});
  CHECK(auc_of(popularity) < 0.6);
}

TEST_CASE(
    "synchronous training with negatives gives the same bits for any number of workers, and "
    "after a resume",
    "[integration]") {
  const ScratchDir dir;
  write_pairs(dir);
  const auto train = [&](const std::string& name, const std::vector<std::string>& flags) {
    dir.write("job.toml", job_text(name));
    std::vector<std::string> all = {"--set", "train.mode=sync",  "--set", "train.replicas=2",
                                    "--set", "data.cache=memory"};
    all.insert(all.end(), flags.begin(), flags.end());
    return trained(dir, all);
  };
  train("one", {"--epochs", "3"});
  const std::string wanted = predictions(dir, "one");
  CHECK(std::ranges::count(wanted, '\n') == 3000);
  train("two",
        {"--epochs", "3", "--workers", "2", "--ps", "2", "--set", "cluster.input_workers=1"});
  CHECK(predictions(dir, "two") == wanted);
  train("resumed", {"--epochs", "1"});
  CHECK(predictions(dir, "resumed") != wanted);
  train("resumed", {"--epochs", "3", "--workers", "2"});
  CHECK(predictions(dir, "resumed") == wanted);
}

TEST_CASE("an evaluation has the same negatives in every process and at every time",
          "[integration]") {
  const ScratchDir dir;
  write_pairs(dir);
  dir.write("job.toml", job_text("run", "group_by = \"user\"\nslices = [\"item\"]\n"));
  const Json one = trained(dir, {"--epochs", "1", "--workers", "2"});
  const Json& trained_metrics = one["evaluations"].back()["outputs"]["score"];
  CHECK(trained_metrics["gauc"].get<double>() > 0.5);
  CHECK(trained_metrics["ndcg"].get<double>() > 0.5);
  const Ended ended = run(dir, {"eval", "run", "--log-format", "json", "--quiet"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  const Json again = Json::parse(ended.out)["evaluations"].back()["outputs"]["score"];
  for (const char* name : {"auc", "loss", "gauc", "ndcg"}) {
    CAPTURE(name);
    CHECK(again[name].get<double>() == Approx(trained_metrics[name].get<double>()).epsilon(1e-9));
  }
}

TEST_CASE("local and mixed training draw negatives", "[integration]") {
  const ScratchDir dir;
  write_pairs(dir);
  dir.write("job.toml", job_text("run"));
  for (const char* const mode : {"local", "mixed"}) {
    CAPTURE(mode);
    const Json summary =
        trained(dir, {"--fresh", "--workers", "2", "--set", std::string("train.mode=") + mode});
    CHECK(auc_of(summary) > 0.8);
    CHECK(summary["accounts"][0]["applied"] == 9000);
  }
}

TEST_CASE("a record that is no positive is an error with its place", "[integration]") {
  const ScratchDir dir;
  dir.write("train.csv", "user,item,label\n" + pairs(500, 1, ",1") + "u1,i2,0\n");
  dir.write("test.csv", "user,item,label\n" + pairs(500, 2, ",1"));
  std::string job = job_text("run");
  const std::string fields = "fields = { ";
  job.insert(job.find(fields) + fields.size(), "label = {}, ");
  dir.write("job.toml", job);
  const Ended ended = run(dir, {"train", "job.toml", "--quiet"});
  CHECK(ended.status != 0);
  CHECK(ended.err.find("train.csv:502") != std::string::npos);
  CHECK(ended.err.find("with data.negatives each record is a positive") != std::string::npos);
  const Json summary = trained(dir, {"--fresh", "--set", "data.filter=label > 0"});
  CHECK(summary["accounts"][0]["applied"] == 500);
  CHECK(summary["accounts"][0]["filtered"] == 1);
}

TEST_CASE("the example of implicit feedback trains", "[integration]") {
  const ScratchDir dir;
  const std::string job = std::string(DP_SOURCE_DIR) + "/docs/examples/implicit-feedback.toml";
  const Ended ended = run(
      dir, {"train", job, "--set", "run_dir=" + (dir / "run"), "--log-format", "json", "--quiet"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(auc_of(Json::parse(ended.out)) > 0.8);
}

}  // namespace
}  // namespace downpour::testing
