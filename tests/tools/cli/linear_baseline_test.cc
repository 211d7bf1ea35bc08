#include "tools/cli/linear_baseline.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "chief/runtime/job_setup.h"
#include "chief/runtime/learn.h"
#include "shared/base/str.h"
#include "tests/support/scratch_dir.h"

namespace downpour::tools {
namespace {

using testing::ScratchDir;

/// Returns the job of a data file as `train` trains it: complete, with its statistics learned.
Job job_of(const std::string& path, const std::vector<Override>& overrides) {
  auto given = chief::load_given_job(path, overrides);
  INFO((given ? "" : given.error().what));
  REQUIRE(given);
  auto plan = chief::plan_run(given->loaded.job, wire::Purpose::kTrain);
  REQUIRE(plan);
  REQUIRE(chief::learn_statistics(*plan, /*fresh=*/true));
  return plan->job;
}

/// Writes 900 records whose target is one of `targets`, by a number and a color.
std::string write_targets(const ScratchDir& dir, const char* name,
                          const std::vector<std::string>& targets) {
  std::string lines = "x,color,target\n";
  for (size_t i = 0; i < 900; ++i) {
    const size_t target = i % targets.size();
    lines += str(100 * target + i % 97, target == 0 ? ",red," : ",blue,", targets[target], "\n");
  }
  return dir.write(name, lines);
}

TEST_CASE("the linear model has the fields, statistics and evaluation data of the model", "[cli]") {
  const ScratchDir dir;
  const std::string path = write_targets(dir, "kinds.csv", {"fox", "horse", "mouse"});
  const Job job =
      job_of(path, {{"eval", str("{ source = '", path, "' }"), "--set"}, {"seed", "7", "--set"}});
  REQUIRE(job.model.preset == "wide_deep");
  const auto linear = linear_job(job);
  REQUIRE(linear);
  CHECK(linear->data == job.data);
  CHECK(linear->eval.source == job.eval.source);
  CHECK(linear->eval.holdout == job.eval.holdout);
  CHECK(linear->seed == 7);
  REQUIRE(linear->model.layers.size() == 1);
  CHECK(linear->model.layers[0].type == "linear");
  CHECK(linear->model.layers[0].units == std::vector<uint32_t>{3});
  for (const FieldSpec& field : job.data.fields) {
    CAPTURE(field.name);
    CHECK(std::ranges::count(linear->model.layers[0].inputs, field.name) ==
          (field.name == "target" ? 0 : 1));
  }
  CHECK(linear->model.outputs[0].loss == "softmax_cross_entropy");
}

TEST_CASE("binary targets and numbers have a linear model with the offset of the model", "[cli]") {
  const ScratchDir dir;
  const Job binary = job_of(write_targets(dir, "binary.csv", {"0", "1", "0"}), {});
  REQUIRE(binary.model.outputs[0].offset.value != 0);
  const auto logistic = linear_job(binary);
  REQUIRE(logistic);
  CHECK(logistic->model.preset == "logistic_regression");
  CHECK(logistic->model.outputs[0].offset == binary.model.outputs[0].offset);
  CHECK_FALSE(linear_job(*logistic));

  const std::string numbers = write_targets(dir, "numbers.csv", {"0.5", "1.5", "7.25"});
  const auto squared = linear_job(job_of(numbers, {}));
  REQUIRE(squared);
  CHECK(squared->model.preset == "linear_regression");
  CHECK_FALSE(squared->model.outputs[0].scale.open);
  CHECK_FALSE(linear_job(job_of(numbers, {{"model.loss", "absolute", "--set"}})));
}

TEST_CASE("a linear model of classes learns, but not beyond its time", "[cli]") {
  const ScratchDir dir;
  const Job job = job_of(write_targets(dir, "kinds.csv", {"fox", "horse", "mouse"}), {});
  const auto baseline = linear_baseline(job, 60 * kSecond, [] { return false; });
  REQUIRE(baseline);
  CHECK(baseline->loss < std::log(3.0) / 2);  // log(3) is that of the best constant
  CHECK(baseline->epochs >= 1);
  CHECK_FALSE(linear_baseline(job, 60 * kSecond, [] { return true; }));
  const auto none = linear_baseline(job, 0, [] { return false; });
  CHECK((none ? none->epochs : 0) <= 1);
}

}  // namespace
}  // namespace downpour::tools
