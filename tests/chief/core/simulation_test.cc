// Simulations of the chief's core with failures: see simulation_world.h.
#include "tests/chief/core/simulation_workers.h"
#include "tests/support/seeds.h"

namespace downpour::chief {
namespace {

/// How many of the simulations had each event. A test with too few of them would test nothing.
struct Tally {
  uint64_t expiries = 0, repeats = 0, revoked = 0, lacking = 0, restored = 0, claims = 0;
  uint64_t rollbacks = 0, moved = 0, cancelled = 0, stopped = 0;

  /// Simulates a job, and checks its account.
  void run(uint64_t seed, Faults faults, Source source = Source::kFile) {
    INFO("source " << int(source) << ", faults " << int(faults) << ", seed " << seed);
    World world(seed, faults, source);
    REQUIRE(world.run());
    world.check();
    expiries += world.saw_expiry();
    repeats += world.saw_repeat();
    revoked += world.saw_revoked();
    lacking += world.saw_lacking();
    restored += world.saw_restored();
    claims += world.saw_claims();
    rollbacks += world.saw_rollback();
    moved += world.saw_moved();
    cancelled += world.saw_cancelled();
    stopped += world.stopped();
  }
};

TEST_CASE("without faults the account balances and nothing is repeated", "[chief][core][sim]") {
  Tally seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) seen.run(seed, Faults::kNone);
  CHECK(seen.expiries == 0);
}

TEST_CASE("the account balances when workers die and messages are lost, repeated or late",
          "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 500;
  Tally seen;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) seen.run(seed, Faults::kWorkers);
  CHECK(seen.expiries > kSeeds / 20);
  CHECK(seen.repeats > kSeeds / 20);
  CHECK(seen.revoked > kSeeds / 20);
  CHECK(seen.lacking > kSeeds / 20);
}

TEST_CASE("the account balances when ps and chief die or hang, too", "[chief][core][sim]") {
  constexpr uint64_t kSeeds = testing::seeds(2000);
  Tally seen;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) seen.run(seed, Faults::kAll);
  CHECK(seen.restored > kSeeds / 20);
  CHECK(seen.claims > kSeeds / 20);
  CHECK(seen.rollbacks > kSeeds / 50);
}

TEST_CASE("the account balances when ps join, leave, and die during a move", "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 1500;
  Tally seen;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) seen.run(seed, Faults::kMoves);
  CHECK(seen.stopped < kSeeds / 20);
  CHECK(seen.moved > kSeeds / 4);
  CHECK(seen.cancelled > kSeeds / 50);
  CHECK(seen.claims > kSeeds / 20);
}

TEST_CASE("the account balances over a stream of unknown length, with all failures",
          "[chief][core][sim]") {
  constexpr uint64_t kSeeds = 700;
  for (const Source source : {Source::kOpen, Source::kOpenShared}) {
    Tally seen;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      for (const Faults faults : {Faults::kNone, Faults::kWorkers, Faults::kAll, Faults::kMoves})
        if (faults != Faults::kNone || seed <= 50) seen.run(seed, faults, source);
    }
    CHECK(seen.restored > kSeeds / 20);
    CHECK(seen.claims > kSeeds / 20);
    CHECK(seen.rollbacks > kSeeds / 50);
    CHECK(seen.lacking > kSeeds / 20);
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
