// Simulations of the chief's core with failures: see simulation_world.h.
#include "tests/chief/core/simulation_workers.h"
#include "tests/support/seeds.h"

namespace downpour::chief {
namespace {

TEST_CASE("without faults the account balances and nothing is repeated", "[chief][core][sim]") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    World world(seed, Faults::kNone);
    REQUIRE(world.run());
    world.check();
    CHECK_FALSE(world.saw_expiry());
  }
}

TEST_CASE("the account balances when workers die and messages are lost, repeated or late",
          "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 500;
  uint64_t expiries = 0, repeats = 0, revoked = 0, lacking = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    World world(seed, Faults::kWorkers);
    REQUIRE(world.run());
    world.check();
    expiries += world.saw_expiry();
    repeats += world.saw_repeat();
    revoked += world.saw_revoked();
    lacking += world.saw_lacking();
  }
  // Otherwise the seeds do not test these cases.
  CHECK(expiries > kSeeds / 20);
  CHECK(repeats > kSeeds / 20);
  CHECK(revoked > kSeeds / 20);
  CHECK(lacking > kSeeds / 20);
}

TEST_CASE("the account balances when ps and chief die or hang, too", "[chief][core][sim]") {
  constexpr uint64_t kSeeds = testing::seeds(2000);
  uint64_t restored = 0, claims = 0, rollbacks = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    World world(seed, Faults::kAll);
    REQUIRE(world.run());
    world.check();
    restored += world.saw_restored();
    claims += world.saw_claims();
    rollbacks += world.saw_rollback();
  }
  CHECK(restored > kSeeds / 20);
  CHECK(claims > kSeeds / 20);
  CHECK(rollbacks > kSeeds / 50);
}

TEST_CASE("the account balances when ps join, leave, and die during a move", "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 1500;
  uint64_t moved = 0, cancelled = 0, claims = 0, stopped = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    World world(seed, Faults::kMoves);
    REQUIRE(world.run());
    world.check();
    moved += world.saw_moved();
    cancelled += world.saw_cancelled();
    claims += world.saw_claims();
    stopped += world.stopped();
  }
  CHECK(stopped < kSeeds / 20);
  CHECK(moved > kSeeds / 4);
  CHECK(cancelled > kSeeds / 50);
  CHECK(claims > kSeeds / 20);
}

TEST_CASE("the account balances over a stream of unknown length, with all failures",
          "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 700;
  for (const Source source : {Source::kOpen, Source::kOpenShared}) {
    uint64_t restored = 0, claims = 0, rollbacks = 0, lacking = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      for (const Faults faults : {Faults::kNone, Faults::kWorkers, Faults::kAll, Faults::kMoves}) {
        if (faults == Faults::kNone && seed > 50) continue;
        INFO("source " << int(source) << ", faults " << int(faults) << ", seed " << seed);
        World world(seed, faults, source);
        REQUIRE(world.run());
        world.check();
        restored += world.saw_restored();
        claims += world.saw_claims();
        rollbacks += world.saw_rollback();
        lacking += world.saw_lacking();
      }
    }
    CHECK(restored > kSeeds / 20);
    CHECK(claims > kSeeds / 20);
    CHECK(rollbacks > kSeeds / 50);
    CHECK(lacking > kSeeds / 20);
  }
}

TEST_CASE("the same events give the same effects", "[chief][core][sim]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World first(seed, Faults::kAll), second(seed, Faults::kAll);
    first.run();
    second.run();
    CHECK(first.effects_hash() == second.effects_hash());
  }
}

}  // namespace
}  // namespace downpour::chief
