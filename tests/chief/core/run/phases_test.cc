// The phases of a job: which of them may follow which.
#include "chief/core/run/phases.h"

#include <array>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

using enum Phase;

constexpr std::array kPhases = {kGathering,  kAdopting,   kReconciling, kTraining, kCompleting,
                                kEvaluating, kPredicting, kSaving,      kStopping, kFinished};

/// The phases that the job may enter from `from`, besides kStopping and kFinished.
std::set<Phase> followers(Phase from) {
  std::set<Phase> allowed;
  for (const Phase to : kPhases) {
    if (to != kStopping && to != kFinished && may_follow(from, to)) allowed.insert(to);
  }
  return allowed;
}

}  // namespace

TEST_CASE("a job goes through its phases in the order of the table", "[chief][core]") {
  CHECK(followers(kGathering) == std::set{kAdopting});
  CHECK(followers(kAdopting) ==
        std::set{kGathering, kReconciling, kTraining, kEvaluating, kPredicting, kSaving});
  CHECK(followers(kTraining) == std::set{kCompleting, kReconciling, kSaving});
  CHECK(followers(kCompleting) == std::set{kTraining, kEvaluating, kReconciling, kSaving});
  CHECK(followers(kReconciling) == std::set{kReconciling, kTraining, kEvaluating, kSaving});
  CHECK(followers(kEvaluating) == std::set{kTraining, kReconciling, kSaving});
  CHECK(followers(kPredicting).empty());
  CHECK(followers(kSaving) == std::set{kTraining, kReconciling, kSaving});
}

TEST_CASE("every phase may end the job, once", "[chief][core]") {
  for (const Phase from : kPhases) {
    CAPTURE(int(from));
    CHECK(may_follow(from, kStopping) == (from != kStopping && from != kFinished));
    CHECK(may_follow(from, kFinished) == (from != kFinished));
  }
  CHECK(followers(kStopping).empty());
  CHECK(followers(kFinished).empty());
}

TEST_CASE("the time of a phase begins when the job enters it", "[chief][core]") {
  const ChiefConfig config;
  const wire::View view;
  TurnState state{
      .config = config, .view = view, .log_budget = LogBudget(), .outbox = Outbox(kSecond)};
  Effects effects;
  Phases phases;
  phases.start(Turn(state, 5 * kSecond, effects));
  phases.enter(Turn(state, 7 * kSecond, effects), kAdopting);
  const Turn later(state, 10 * kSecond, effects);
  CHECK(phases.lasted_ns(later) == 3 * kSecond);
  phases.enter(later, kSaving);
  phases.enter(Turn(state, 12 * kSecond, effects), kSaving);  // a phase that begins anew
  CHECK(phases.lasted_ns(Turn(state, 13 * kSecond, effects)) == kSecond);
  CHECK(effects.empty());
}

}  // namespace downpour::chief
