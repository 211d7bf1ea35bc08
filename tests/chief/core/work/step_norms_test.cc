// The factors by which the norm of a synchronous step's gradients is limited, at the chief.
#include "chief/core/work/step_norms.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "chief/core/work/step_commits.h"

namespace downpour::chief {
namespace {

ChiefConfig config_with(const ClipSpec& clip) {
  ChiefConfig config;
  config.job.partitions = 4;
  config.job.train.replicas = 2;
  config.job.clip = clip;
  return config;
}

const wire::Commit kDue{.step = 7, .parts = {{0, {0, 0, 3}}}, .measure = true, .factors = {}};

bool take(StepNorms& norms, std::vector<uint32_t> partitions, std::vector<double> squares) {
  wire::Committed measured{.step = 7, .measured = true, .partitions = {}};
  for (const uint32_t p : partitions) measured.partitions.push_back(PartitionId(p));
  return norms.take(measured, Bytes::of(std::move(squares)));
}

TEST_CASE("the norm of all partitions decides the factor of a step", "[chief]") {
  const ChiefConfig config = config_with({.global_norm = 2});
  StepNorms norms(config);
  REQUIRE(norms.needed());
  norms.begin(kDue);
  CHECK(take(norms, {2, 0}, {6, 1}));
  CHECK(norms.collecting());
  CHECK(take(norms, {1, 3}, {7, 2}));
  const auto commit = norms.finish();
  REQUIRE(commit);
  CHECK(*commit == wire::Commit{7, kDue.parts, false, {0.5F}});  // 2 of 4
  CHECK_FALSE(norms.collecting());
}

TEST_CASE("the norm of each variable is limited first, and then that of all that remains",
          "[chief]") {
  const ChiefConfig config = config_with({.norm = 3, .global_norm = 2.5F});
  StepNorms norms(config);
  norms.begin(kDue);
  REQUIRE(take(norms, {0, 1, 2, 3}, {16, 1, 10, 0, 10, 0, 0, 3}));  // norms 6 and 2
  const auto commit = norms.finish();
  REQUIRE(commit);
  const auto of_all = float(2.5 / std::sqrt(9.0 + 4.0));
  REQUIRE(commit->factors.size() == 2);
  CHECK(commit->factors[0] == Approx(0.5F * of_all));
  CHECK(commit->factors[1] == Approx(of_all));
}

TEST_CASE("a norm below its limit, or one that is not finite, leaves the step as it is",
          "[chief]") {
  const ChiefConfig config = config_with({.norm = 4, .global_norm = 4});
  for (const double squares : {3.9, double(INFINITY), double(NAN)}) {
    CAPTURE(squares);
    StepNorms norms(config);
    norms.begin(kDue);
    REQUIRE(take(norms, {0, 1, 2, 3}, {squares, 0, 0, 0}));
    const auto commit = norms.finish();
    REQUIRE(commit);
    CHECK(commit->factors.empty());
  }
}

TEST_CASE("norms of a wrong size are ignored, and without those of a partition there is no Commit",
          "[chief]") {
  const ChiefConfig config = config_with({.global_norm = 1});
  StepNorms norms(config);
  norms.begin(kDue);
  CHECK_FALSE(take(norms, {0, 1}, {1, 2, 3}));
  CHECK_FALSE(take(norms, {4}, {1}));
  CHECK_FALSE(take(norms, {0}, {}));
  CHECK(take(norms, {0, 1, 2}, {1, 2, 3}));
  CHECK_FALSE(norms.finish());
}

TEST_CASE("workers limit the norms of replicas that train alone", "[chief]") {
  ChiefConfig config = config_with({.global_norm = 1});
  config.job.train.sync_every = 4;
  CHECK_FALSE(StepNorms(config).needed());
}

TEST_CASE("a step is applied after all cores have measured it, and a late answer changes nothing",
          "[chief]") {
  const ChiefConfig config = config_with({.global_norm = 2});
  StepCommits commits(config);
  wire::View view{.id = {1, 1}};
  view.owners.resize(2);
  commits.on_view(view, true);
  commits.begin_empty();
  TurnState state{
      .config = config, .view = view, .log_budget = LogBudget({.burst = 1}), .outbox = Outbox(1)};
  Effects effects;
  const Turn turn(state, 0, effects);
  Member members[2];
  for (uint32_t m : {0U, 1U}) members[m].hello = {.role = wire::Role::kPs, .thread = m};
  const wire::Commit due{.step = 1, .parts = {{0, {0, 0, 0}}}, .measure = false, .factors = {}};
  const wire::Commit measure = commits.begin(wire::Commit(due));
  CHECK(measure.measure);
  const auto send = [&](const wire::Commit& commit) {
    for (const Member& member : members) commits.sent(turn, member, commit);
  };
  const auto measured = [&](uint32_t m) {
    return commits.on_measured(
        members[m],
        {.step = 1, .measured = true, .partitions = {PartitionId(2 * m), PartitionId(2 * m + 1)}},
        Bytes::of(std::vector<double>{8, 8}));
  };
  send(measure);
  CHECK_FALSE(commits.on_committed(turn, members[0], {.step = 1}));  // it has not been asked to
  CHECK_FALSE(measured(0));
  CHECK_FALSE(measured(0));
  const auto commit = measured(1);
  REQUIRE(commit);
  CHECK(commit->factors == std::vector<float>{float(2 / std::sqrt(32.0))});
  send(*commit);
  CHECK_FALSE(measured(0));
  CHECK_FALSE(commits.on_committed(turn, members[0], {.step = 1}));
  CHECK_FALSE(measured(1));
  CHECK(commits.on_committed(turn, members[1], {.step = 1}));
  CHECK(commits.next() == 2);
}

}  // namespace
}  // namespace downpour::chief
