// The keys of learning-rate schedules, and their errors.
#include <string>

#include "shared/job/resume.h"
#include "tests/shared/job/job_test_support.h"

namespace downpour::test {
namespace {

std::string with_schedule(const std::string& schedule) {
  return small_job("optimizer = { type = \"adam\", schedule = " + schedule + " }\n");
}

TEST_CASE("every schedule is read with its settings, and printed so that it reads the same",
          "[job]") {
  const std::pair<const char*, ScheduleSpec> all[] = {
      {R"("constant")", {.type = ScheduleType::kConstant}},
      {R"({ warmup_steps = 50 })", {.type = ScheduleType::kConstant, .warmup_steps = 50}},
      {R"({ type = "step", decay_steps = 100, decay_rate = 0.1 })",
       {.type = ScheduleType::kStep, .decay_steps = 100, .decay_rate = 0.1F}},
      {R"({ type = "exponential", decay_steps = 100, warmup_steps = 5 })",
       {.type = ScheduleType::kExponential, .warmup_steps = 5, .decay_steps = 100}},
      {R"({ type = "polynomial", decay_steps = 100, power = 2, end = 0.1 })",
       {.type = ScheduleType::kPolynomial, .decay_steps = 100, .power = 2, .end = 0.1F}},
      {R"({ type = "cosine", decay_steps = 100, end = 0.25 })",
       {.type = ScheduleType::kCosine, .decay_steps = 100, .end = 0.25F}},
      {R"({ type = "inverse_sqrt", warmup_steps = 400 })",
       {.type = ScheduleType::kInverseSqrt, .warmup_steps = 400}}};
  for (const auto& [text, want] : all) {
    INFO(text);
    const Job job = completed(with_schedule(text));
    CHECK(job.optimizer.schedule == want);
    CHECK(job.optimizer.type == OptimizerType::kAdam);
    const auto again = job_from_toml(job_to_toml(job), "/jobs");
    REQUIRE(again);
    CHECK(again->optimizer == job.optimizer);
  }
  const Job job = loaded(with_schedule("\"plateau\"") + "eval.holdout = 0.1\n");
  CHECK(job.optimizer.schedule == ScheduleSpec{.type = ScheduleType::kPlateau});
}

TEST_CASE("a job without a schedule is printed without one", "[job]") {
  CHECK(job_to_toml(completed(small_job())).find("schedule") == std::string::npos);
}

TEST_CASE("a rule may have a schedule of its own", "[job]") {
  const Job job = completed(small_job(
      "optimizer.schedule = { type = \"cosine\", decay_steps = 9 }\noptimizer.rules = [{ variables "
      "= "
      "\"a/*\", schedule = { type = \"step\", decay_steps = 7 } }, { variables = \"b/*\" }]\n"));
  REQUIRE(job.optimizer_rules.size() == 2);
  CHECK(job.optimizer_rules[0].optimizer.schedule.type == ScheduleType::kStep);
  CHECK_FALSE(job.optimizer_rules[1].optimizer.schedule.given());
  const auto again = job_from_toml(job_to_toml(job), "/jobs");
  REQUIRE(again);
  CHECK(again->optimizer_rules == job.optimizer_rules);
}

TEST_CASE("a schedule alone leaves the choice of the optimizer to the preset", "[job]") {
  const std::string fields =
      "data.source = \"a.csv\"\ndata.format = \"csv\"\ndata.columns = [\"label\", \"c\"]\n"
      "data.fields = { label = { type = \"float32\" }, c = { type = \"string\" } }\n"
      "model.preset = \"wide_deep\"\n";
  const Job plain = completed(fields);
  REQUIRE_FALSE(plain.optimizer_rules.empty());
  Job job = loaded(fields + "optimizer.schedule = { type = \"cosine\", decay_steps = 9 }\n");
  // The printed job leaves the choice open as well.
  const auto again = job_from_toml(job_to_toml(job), "/jobs");
  REQUIRE(complete_job(job));
  for (const Job& one : {job, *again}) {
    CHECK(one.optimizer_rules == plain.optimizer_rules);
    CHECK(one.optimizer.schedule.type == ScheduleType::kCosine);
  }
  CHECK(job.train.reduction == "sum");
}

TEST_CASE("an incomplete or contradictory schedule is an error that says what to do", "[job]") {
  const auto fails = [](const std::string& text, const char* what, const char* hint) {
    const Error error = error_of(text);
    INFO(error.where << ": " << error.what << " / " << error.hint);
    CHECK(error.what.find(what) != std::string::npos);
    CHECK(error.hint.find(hint) != std::string::npos);
    CHECK(error.where.starts_with("/jobs/job.toml:"));
    CHECK(exit_code(error.code) == 78);
  };
  for (const char* type : {"step", "exponential", "polynomial", "cosine"}) {
    fails(with_schedule(std::string("\"") + type + "\""), "has no `decay_steps`",
          "decay_steps = 10000");
  }
  fails(with_schedule("\"inverse_sqrt\""), "neither `warmup_steps` nor `decay_steps`",
        "warmup_steps = 1000");
  fails(with_schedule("\"plateau\""), "needs evaluations", "eval.holdout = 0.1");
  fails(with_schedule("{ type = \"cosine\", decay_steps = 9, power = 2 }"),
        "unknown key `optimizer.schedule.power`", "end");
  fails(with_schedule("{ type = \"cosine\", decay_steps = 9, end = 1.5 }"),
        "`optimizer.schedule.end` can't be 1.5", "from 0 to 1");
  fails(with_schedule("{ type = \"plateau\", factor = 1.0 }"), "can't be 1", "0.99");
  fails(with_schedule("{ type = \"cosin\" }"), "cosin", "cosine");
  fails(with_schedule("7"), "must be a table", "");
  const std::string two = small_job(
      "eval.holdout = 0.1\noptimizer.schedule = { type = \"plateau\", patience = 2 }\n"
      "optimizer.rules = [{ variables = \"a/*\", schedule = \"plateau\" }]\n");
  fails(two, "`patience` is 3", "the same values");
}

TEST_CASE("a schedule may change when a run resumes", "[job][resume]") {
  const Job saved = completed(with_schedule("\"constant\""));
  const Job now = completed(with_schedule("{ type = \"cosine\", decay_steps = 9 }"));
  CHECK_FALSE(now == saved);
  CHECK(frozen_differences(saved, now, true).empty());
}

}  // namespace
}  // namespace downpour::test
