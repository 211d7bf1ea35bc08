// GivenJob: what a worker derives from a Welcome, whose sender it has not authenticated.
#include "worker/runtime/given_job.h"

#include <catch2/catch.hpp>

#include "shared/base/units.h"
#include "shared/job/job_file.h"
#include "shared/plan/range_limits.h"

namespace downpour::worker {
namespace {

wire::Welcome welcome_of(plan::FileInfo file) {
  return {.job =
              "data = { source = \"/f\", format = \"libsvm\" }\n"
              "model.preset = \"logistic_regression\"\n",
          .base_dir = "/",
          .shard_bytes = kMiB,
          .train_files = {std::move(file)}};
}

TEST_CASE("a Welcome whose files can't be cut is an error", "[worker]") {
  const plan::FileInfo file{.path = "/f", .bytes = 10 * kMiB};
  CHECK(take_job(welcome_of(file))->readers.train_shards.count() == 10);
  wire::Welcome welcome = welcome_of(file);
  welcome.shard_bytes = 0;
  CHECK_FALSE(take_job(welcome));
  for (const plan::FileInfo& bad :
       {plan::FileInfo{.path = "/f", .bytes = UINT64_MAX},
        plan::FileInfo{.path = "/f", .bytes = (plan::kRangesMax + uint64_t{1}) * kMiB},
        plan::FileInfo{.path = "/f", .bytes = 10, .cuts = {5, 5}},
        plan::FileInfo{.path = "/f", .bytes = 10, .cuts = {10}},
        plan::FileInfo{.path = "/f", .bytes = plan::kOpenEnd, .splittable = false}}) {
    CHECK_FALSE(take_job(welcome_of(bad)));
    wire::Welcome evaluated = welcome_of(file);
    evaluated.eval_files = {bad};
    CHECK_FALSE(take_job(evaluated));
  }
}

TEST_CASE("a program in a Welcome for a source of files is an error", "[worker]") {
  const plan::FileInfo program{.path = "exec: rm", .bytes = 10, .splittable = false};
  CHECK(take_job(welcome_of(program)).error().code == ErrorCode::kMalformed);
  wire::Welcome evaluated = welcome_of({.path = "/f", .bytes = kMiB});
  evaluated.eval_files = {program};
  CHECK(take_job(evaluated).error().code == ErrorCode::kMalformed);
}

TEST_CASE("a Welcome whose job is nested too deeply is an error", "[worker]") {
  wire::Welcome welcome = welcome_of({.path = "/f", .bytes = kMiB});
  for (int i = 0; i < 100'000; ++i) welcome.job += "a.";
  welcome.job += "a = 1\n";
  const auto given = take_job(welcome);
  REQUIRE_FALSE(given);
  CHECK(given.error().code == ErrorCode::kConfig);
}

TEST_CASE("a job with other slices or groups is another job, because readers were made for them",
          "[worker]") {
  const std::string text =
      "data = { source = \"/f\", format = \"csv\", fields = { x = {}, land = {}, y = {} } }\n"
      "model = { preset = \"logistic_regression\", inputs = [\"x\"], target = \"y\" }\n";
  const auto job = job_from_toml(text, "/");
  REQUIRE(job);
  CHECK(why_other(*job, text, "/").empty());
  CHECK(why_other(*job, text + "eval.keep_best = true\n", "/").empty());
  CHECK(why_other(*job, text + "eval.group_by = \"land\"\n", "/") ==
        "a job with another `eval.group_by`");
  CHECK(why_other(*job, text + "eval.slices = [{ field = \"land\", values = [\"1\"] }]\n", "/") ==
        "a job with other `eval.slices`");
}

}  // namespace
}  // namespace downpour::worker
