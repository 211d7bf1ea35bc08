// ReaderTuner: it finds the best number of readers in simulated worlds where that number is known.
#include "worker/core/reader_tuner.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

namespace downpour::worker {
namespace {

constexpr int64_t kStepNs = 250 * kMillisecond;

/// A worker whose readers make `read_rate` batches per second each, but at most `read_max`
/// together. The worker computes `compute_rate` batches per second.
struct World {
  double read_rate, read_max, compute_rate;
  bool bursts = false;  // both sides wait in turns, unless 64 batches are ready
  double runnable = 0;  // share of a reader's time; 0: not known
  ReaderTotals totals;

  double rate(const ReaderLimits& limits) const {
    const double read = std::min(read_rate * limits.shards, read_max);
    const double most = std::min(read, compute_rate);
    return bursts && limits.batches < 64 ? most * 0.7 : most;
  }
  void step(const ReaderLimits& limits) {
    const double seconds = double(kStepNs) / double(kSecond);
    const double done = rate(limits);
    totals.batches += uint64_t(done * seconds + 0.5);
    if (runnable > 0) totals.reading_ns += limits.shards * kStepNs;
    totals.runnable_ns += int64_t(runnable * limits.shards * double(kStepNs));
    totals.batch_bytes += uint64_t(done * seconds + 0.5) * 10'000;
    const bool uneven = bursts && limits.batches < 64;
    totals.starved_ns += int64_t(double(kStepNs) * std::max(0.0, 1 - done / compute_rate));
    const double read = std::min(read_rate * limits.shards, read_max);
    if (uneven || read > compute_rate) totals.full_ns += kStepNs / 3;
  }
};

/// Returns the limits after each step.
std::vector<ReaderLimits> run(World world, ReaderLimits start, ReaderTuner::Bounds bounds,
                              int steps) {
  ReaderTuner tuner(start, bounds);
  std::vector<ReaderLimits> seen;
  for (int i = 1; i <= steps; ++i) {
    world.step(tuner.limits());
    (void)tuner.on_totals(i * kStepNs, world.totals);
    seen.push_back(tuner.limits());
  }
  return seen;
}

double share_of_best(const World& world, const std::vector<ReaderLimits>& seen) {
  double best = 0, sum = 0;
  for (uint32_t shards = 1; shards <= 16; ++shards)
    best = std::max(best, world.rate({.shards = shards, .batches = 256}));
  for (const ReaderLimits& limits : seen) sum += world.rate(limits);
  return sum / double(seen.size()) / best;
}

TEST_CASE("a slow source is read in as many places as pay off", "[worker]") {
  const World slow{.read_rate = 20, .read_max = 1e9, .compute_rate = 300};
  const auto seen = run(slow, {}, {}, 240);
  CHECK(seen.back().shards == 16);
  CHECK(seen[19].shards == 16);  // after 5 s
  CHECK(share_of_best(slow, seen) > 0.95);
}

TEST_CASE("readers that only take processor time from each other are removed again", "[worker]") {
  const World parsing{.read_rate = 100, .read_max = 200, .compute_rate = 1000};
  const auto seen = run(parsing, {}, {}, 240);
  CHECK(std::ranges::count(seen, 2U, &ReaderLimits::shards) > 200);
  CHECK(std::ranges::max(seen, {}, &ReaderLimits::shards).shards == 4);
}

TEST_CASE("readers that always need a processor do not become more than the processors",
          "[worker]") {
  const World parsing{.read_rate = 100, .read_max = 1e9, .compute_rate = 2000, .runnable = 0.9};
  const auto most = [](const World& world, uint32_t processors) {
    const auto seen = run(world, {}, {.processors = processors}, 240);
    return std::ranges::max(seen, {}, &ReaderLimits::shards).shards;
  };
  CHECK(most(parsing, 2) == 2);
  CHECK(most(parsing, 8) == 8);
  World waiting = parsing;
  waiting.runnable = 0.05;
  CHECK(most(waiting, 2) == 16);
}

TEST_CASE("nothing changes if computing is the bottleneck", "[worker]") {
  const World computing{.read_rate = 200, .read_max = 400, .compute_rate = 100};
  for (const ReaderLimits& limits : run(computing, {}, {}, 240)) CHECK(limits == ReaderLimits{});
}

TEST_CASE("batches that come in bursts are kept ready, within the memory limit", "[worker]") {
  const World bursts{.read_rate = 100, .read_max = 1e9, .compute_rate = 150, .bursts = true};
  CHECK(run(bursts, {}, {}, 100).back().batches == 64);
  CHECK(run(bursts, {}, {.bytes = 200'000}, 100).back().batches == 16);
}

TEST_CASE("limits that the job fixes do not change", "[worker]") {
  const World slow{.read_rate = 20, .read_max = 1e9, .compute_rate = 300, .bursts = true};
  const ReaderLimits fixed{.shards = 3, .batches = 5};
  const ReaderTuner::Bounds bounds{.shards = 3, .batches = 5};
  for (const ReaderLimits& limits : run(slow, fixed, bounds, 100)) CHECK(limits == fixed);
}

TEST_CASE("a source that is fast enough is not read in more places", "[worker]") {
  ReaderTuner tuner({}, {});
  World world{.read_rate = 100, .read_max = 1e9, .compute_rate = 150};
  int changes = 0;
  for (int i = 1; i <= 400; ++i) {
    world.step(tuner.limits());
    changes += tuner.on_totals(i * kStepNs, world.totals).has_value();
  }
  CHECK(tuner.limits().shards == 2);
  CHECK(changes == 0);
}

TEST_CASE("trials become rarer if none pays off", "[worker]") {
  const World parsing{.read_rate = 100, .read_max = 200, .compute_rate = 1000};
  const auto seen = run(parsing, {}, {}, 2400);  // ten minutes
  int trials = 0;
  for (size_t i = 1; i < seen.size(); ++i) trials += seen[i].shards > seen[i - 1].shards;
  CHECK(trials >= 8);
  CHECK(trials <= 16);
}

}  // namespace
}  // namespace downpour::worker
