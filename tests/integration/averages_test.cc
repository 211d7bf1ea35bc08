// Averages of the weights (`optimizer.ema`): everything that predicts uses them, and training goes
// on with the weights.
#include <cmath>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace downpour::testing {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::json;
constexpr int kRows = 600;

Ended downpour(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  return Program("downpour", arguments, dir.path()).wait(120);
}

std::string require(const ScratchDir& dir, const std::vector<std::string>& arguments) {
  const Ended ended = downpour(dir, arguments);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return ended.out;
}

int label_of(int i) { return i * 7 % 10 > 4 ? 1 : 0; }

void write_rows(const ScratchDir& dir) {
  std::ofstream file(dir / "rows.csv");
  file << "label,size,colour,tag\n";
  const char* const colours[] = {"red", "green", "blue"};
  for (int i = 0; i < kRows; ++i)
    file << label_of(i) << "," << i * 7 % 10 << "," << colours[i % 3] << "," << i % 11 << "\n";
}

/// A job with embeddings and dense variables, and rules of the preset for some of them.
void write_job(const ScratchDir& dir, const std::string& name, const std::string& optimizer,
               const std::string& train = "") {
  dir.write(name + ".toml",
            "data.source = \"rows.csv\"\ndata.format = \"csv\"\n"
            "data.fields = { label = {}, size = {}, colour = { type = \"string\" }, tag = { type = "
            "\"int64\", transform = [\"identity\"] } }\n"
            "model = { preset = \"wide_deep\", target = \"label\", dim = 3, units = [5] }\n" +
                optimizer + "train = { epochs = 2, batch_size = 20, in_flight = 1" + train +
                " }\neval.source = \"rows.csv\"\ncluster = { workers = 1, threads = 1 }\n");
}

std::vector<float> predictions(const ScratchDir& dir, const std::string& run) {
  std::istringstream out(
      require(dir, {"predict", dir / ("runs/" + run), "--data", dir / "rows.csv", "--quiet"}));
  std::vector<float> all;
  for (float p = 0; out >> p;) all.push_back(p);
  REQUIRE(all.size() == kRows);
  return all;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
  return worst;
}

double log_loss(const std::vector<float>& predicted) {
  double sum = 0;
  for (int i = 0; i < kRows; ++i) {
    const double p = double(predicted[size_t(i)]);
    sum -= std::log(label_of(i) == 1 ? p : 1 - p);
  }
  return sum / kRows;
}

double loss_of(const std::string& summary) {
  const Json parsed = Json::parse(summary);
  for (const auto& output : parsed["evaluations"].back()["outputs"].items())
    return output.value()["loss"];
  return NAN;
}

const std::string kEma = "optimizer = { ema = 0.95 }\n";

}  // namespace

TEST_CASE("all that predicts uses the averages of the weights", "[integration]") {
  const ScratchDir dir;
  write_rows(dir);
  write_job(dir, "plain", "");
  write_job(dir, "ema", kEma);
  require(dir, {"train", dir / "plain.toml", "--quiet"});
  const double trained =
      loss_of(require(dir, {"train", dir / "ema.toml", "--log-format", "json", "--quiet"}));
  const std::vector<float> plain = predictions(dir, "plain"), averaged = predictions(dir, "ema");
  CHECK(largest_difference(plain, averaged) > 1e-3F);
  CHECK(trained == Approx(log_loss(averaged)).margin(1e-5));
  CHECK(trained != Approx(log_loss(plain)).margin(1e-4));
  const double evaluated =
      loss_of(require(dir, {"eval", dir / "runs/ema", "--data", dir / "rows.csv", "--log-format",
                            "json", "--quiet"}));
  CHECK(evaluated == Approx(log_loss(averaged)).margin(1e-5));
  // A run that begins with the exported file and learns nothing has the same model.
  require(dir, {"export", dir / "runs/ema", "--out", dir / "w.npz"});
  const std::string learns_nothing =
      "optimizer = { type = \"sgd\", learning_rate = 1e-30, ema = 0.9 }\n";
  write_job(dir, "exported", learns_nothing, ", warm_start = { file = \"w.npz\" }");
  require(dir, {"train", dir / "exported.toml", "--quiet"});
  CHECK(largest_difference(predictions(dir, "exported"), averaged) < 1e-5F);
  write_job(dir, "second", learns_nothing, ", warm_start = { run = \"runs/ema\", slots = false }");
  require(dir, {"train", dir / "second.toml", "--quiet"});
  CHECK(largest_difference(predictions(dir, "second"), averaged) < 1e-5F);
  // `inspect` shows the averages: those of `ema` are the weights with which `second` began.
  const auto norm_of_kernel = [&](const std::string& run) {
    const Json shown = Json::parse(require(dir, {"inspect", dir / ("runs/" + run), "--json"}));
    for (const Json& variable : shown["variables"])
      if (variable["name"] == "tower/0/kernel") return variable["l2_norm"].get<double>();
    FAIL("no kernel in " << shown.dump());
    return 0.0;
  };
  CHECK(norm_of_kernel("ema") == Approx(norm_of_kernel("second")).epsilon(1e-6));
  CHECK(norm_of_kernel("ema") != Approx(norm_of_kernel("plain")).epsilon(1e-4));
}

TEST_CASE("a resumed run continues with weights and averages", "[integration]") {
  const ScratchDir dir;
  write_rows(dir);
  const std::string sync = ", mode = \"sync\", replicas = 1";  // always computes the same model
  write_job(dir, "once", kEma, sync);
  write_job(dir, "twice", kEma, sync);
  require(dir, {"train", dir / "once.toml", "--quiet"});
  require(dir, {"train", dir / "twice.toml", "--quiet", "--epochs", "1"});
  require(dir, {"train", dir / "twice.toml", "--quiet", "--epochs", "2"});
  CHECK(predictions(dir, "twice") == predictions(dir, "once"));
  // The mean of the two equal models is the same model.
  require(dir, {"average", dir / "runs/once", dir / "runs/twice", "--out", dir / "runs/mean"});
  CHECK(largest_difference(predictions(dir, "mean"), predictions(dir, "once")) < 1e-5F);
  for (const std::string ema : {"0.9", "0.999"}) {
    const Ended changed = downpour(
        dir, {"train", dir / "once.toml", "--epochs", "3", "--set", "optimizer.ema=" + ema});
    CHECK(changed.status == 78);
    CHECK_THAT(changed.err, Contains("`optimizer.ema` was 0.95 and is " + ema + " now"));
  }
}

TEST_CASE("a warm start with slots needs averages in both runs or in none", "[integration]") {
  const ScratchDir dir;
  write_rows(dir);
  write_job(dir, "plain", "");
  require(dir, {"train", dir / "plain.toml", "--quiet"});
  write_job(dir, "ema", kEma, ", warm_start = { run = \"runs/plain\" }");
  const Ended refused = downpour(dir, {"train", dir / "ema.toml"});
  CHECK(refused.status == 78);
  CHECK_THAT(refused.err, Contains("`optimizer.ema` is not given in the other run, but given in "
                                   "this job") &&
                              Contains("slots = false"));
  write_job(dir, "ema", kEma, ", warm_start = { run = \"runs/plain\", slots = false }");
  require(dir, {"train", dir / "ema.toml", "--quiet"});
  write_job(dir, "next", kEma, ", warm_start = { run = \"runs/ema\" }");
  require(dir, {"train", dir / "next.toml", "--quiet"});
}

TEST_CASE("local training averages over its rounds", "[integration]") {
  const ScratchDir dir;
  write_rows(dir);
  const std::string local = ", mode = \"local\", sync_every = 5, replicas = 1";
  write_job(dir, "plain", "optimizer = { type = \"sgd\", learning_rate = 0.1 }\n", local);
  write_job(dir, "ema", "optimizer = { type = \"sgd\", learning_rate = 0.1, ema = 0.9 }\n", local);
  require(dir, {"train", dir / "plain.toml", "--quiet"});
  const double trained =
      loss_of(require(dir, {"train", dir / "ema.toml", "--log-format", "json", "--quiet"}));
  const std::vector<float> averaged = predictions(dir, "ema");
  CHECK(trained == Approx(log_loss(averaged)).margin(1e-5));
  CHECK(largest_difference(predictions(dir, "plain"), averaged) > 1e-3F);
}

}  // namespace downpour::testing
