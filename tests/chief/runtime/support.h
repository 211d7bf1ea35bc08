// Support: makes the plan of a job from its text.
#pragma once

#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "chief/runtime/run_setup.h"
#include "shared/job/job_file.h"
#include "shared/job/preset.h"
#include "tests/support/scratch_dir.h"

namespace downpour::chief {

using testing::ScratchDir;

inline Result<RunPlan> try_plan(const ScratchDir& dir, const std::string& text,
                                wire::Purpose purpose = wire::Purpose::kTrain) {
  auto loaded = load_job(JobSource{dir / "job.toml", text}, {},
                         [](const std::string&) { return std::optional<std::string>(); });
  if (!loaded) FAIL(loaded.error().what);
  const auto done = complete_job(loaded->job);
  if (!done) FAIL(done.error().what);
  return plan_run(loaded->job, purpose);
}

inline RunPlan plan_of(const ScratchDir& dir, const std::string& text,
                       wire::Purpose purpose = wire::Purpose::kTrain) {
  auto plan = try_plan(dir, text, purpose);
  if (!plan) FAIL(plan.error().what);
  return *plan;
}

}  // namespace downpour::chief
