#include "chief/core/cluster/balance.h"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "chief/core/cluster/placement.h"
#include "shared/base/rng.h"
#include "shared/base/units.h"

namespace downpour::chief {
namespace {

CoreWork core(double busy, uint32_t first, std::vector<double> works) {
  CoreWork out{.busy = busy, .partitions = {}};
  for (const double work : works) out.partitions.push_back({PartitionId(first++), work});
  return out;
}

/// Cores with a fixed cost per unit of work, so that moving partitions changes their busy shares.
struct Cluster {
  std::vector<double> cost;
  std::vector<std::vector<CoreWork::Share>> held;

  std::vector<CoreWork> works() const {
    std::vector<CoreWork> out;
    for (size_t c = 0; c < cost.size(); ++c) {
      CoreWork work{.busy = 0, .partitions = held[c]};
      for (const auto& share : held[c]) work.busy += share.work * cost[c];
      work.busy = std::min(1.0, work.busy);
      out.push_back(std::move(work));
    }
    return out;
  }
  void apply(const Offload& offload) {
    for (const PartitionId p : offload.partitions) {
      auto& from = held[offload.source];
      const auto at = std::find_if(from.begin(), from.end(),
                                   [&](const auto& share) { return share.partition == p; });
      REQUIRE(at != from.end());
      held[offload.target].push_back(*at);
      from.erase(at);
    }
  }
  /// Offloads until nothing is left to do. Returns the number of moved partitions. Fails if it does
  /// not end.
  size_t settle() {
    size_t moved = 0;
    for (int step = 0; step < 100; ++step) {
      const auto offload = choose_offload(works());
      if (!offload) return moved;
      apply(*offload);
      moved += offload->partitions.size();
    }
    FAIL("partitions move for ever");
    return moved;
  }
};

TEST_CASE("cores that are equally busy, or hardly busy, offload nothing", "[chief][core]") {
  CHECK_FALSE(choose_offload({}));
  const std::vector<CoreWork> alone = {core(1, 0, {1, 1})};
  CHECK_FALSE(choose_offload(alone));
  const std::vector<CoreWork> even = {core(0.9, 0, {1, 1}), core(0.8, 2, {1, 1})};
  CHECK_FALSE(choose_offload(even));
  // Ten times the work of the other core, but it is idle most of the time.
  const std::vector<CoreWork> idle = {core(0.4, 0, {5, 5}), core(0.04, 2, {1, 1})};
  CHECK_FALSE(choose_offload(idle));
}

TEST_CASE("a busy core offloads as few partitions as possible, and none that only moves the load",
          "[chief][core]") {
  const std::vector<CoreWork> cores = {
      core(0.1, 0, {1, 1, 1, 1}), core(0.9, 4, {30, 4, 3, 2, 1, 5}), core(0.5, 10, {6, 6, 6, 6})};
  const auto offload = choose_offload(cores);
  REQUIRE(offload);
  CHECK(offload->source == 1);
  CHECK(offload->target == 0);
  // A unit of work costs the source 0.02 and the target 0.025. So 16 units make both equally busy;
  // the partition with 30 is too large. The source keeps three, half of an even share of 14
  // partitions.
  CHECK(offload->partitions ==
        std::vector<PartitionId>{PartitionId(9), PartitionId(5), PartitionId(6)});
}

TEST_CASE("a core keeps at least half of an even share", "[chief][core]") {
  Cluster slow{.cost = {0.3, 0.1}, .held = {{}, {}}};
  for (uint32_t p = 0; p < 8; ++p) slow.held[p / 4].push_back({PartitionId(p), 1.0});
  slow.settle();
  CHECK(slow.held[0].size() >= 2);
  CHECK_FALSE(is_lopsided({{uint32_t(slow.held[0].size())}, {uint32_t(slow.held[1].size())}}));
  const std::vector<CoreWork> least = {core(1, 0, {1, 1}), core(0.1, 2, {1, 1, 1, 1, 1, 1})};
  CHECK_FALSE(choose_offload(least));
}

TEST_CASE("a core that is three times as slow ends up with less, and then nothing moves any more",
          "[chief][core]") {
  Cluster cluster{.cost = {0.009, 0.003, 0.003, 0.003},
                  .held = std::vector<std::vector<CoreWork::Share>>(4)};
  for (uint32_t p = 0; p < 256; ++p) cluster.held[p / 64].push_back({PartitionId(p), 1.5});
  const size_t moved = cluster.settle();
  const std::vector<CoreWork> works = cluster.works();
  CHECK(works[0].busy < 0.55);
  CHECK(moved <= 40);  // each one at most once
  for (const CoreWork& work : works) CHECK(works[0].busy - work.busy < 0.25);
}

TEST_CASE("every offload brings the busiest two cores closer, and offloading ends",
          "[chief][core]") {
  Rng rng(7);
  size_t moves = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t cores = 2 + rng.below(6);
    Cluster cluster;
    cluster.held.resize(cores);
    for (size_t c = 0; c < cores; ++c) cluster.cost.push_back(0.001 * double(1 + rng.below(5)));
    for (uint32_t p = 0; p < 64; ++p) {
      const double work = std::pow(10.0, 3.0 * rng.uniform64());  // a few have a high load
      cluster.held[p % cores].push_back({PartitionId(p), work / 20});
    }
    size_t given = 0;
    for (int step = 0; step < 100; ++step) {
      const std::vector<CoreWork> before = cluster.works();
      const auto offload = choose_offload(before);
      if (!offload) break;
      REQUIRE(step < 50);
      cluster.apply(*offload);
      const std::vector<CoreWork> after = cluster.works();
      // The work of saturated cores is not known exactly. Otherwise the target is not busier
      // afterwards.
      if (before[offload->source].busy < 1)
        CHECK(after[offload->target].busy <= after[offload->source].busy + 1e-9);
      CHECK(after[offload->source].busy <= before[offload->source].busy);
      given += offload->partitions.size();
    }
    moves += given;
  }
  CHECK(moves > 300);
}

wire::Heartbeat report(uint64_t busy_ms, std::vector<wire::PartitionLoad> loads) {
  wire::Heartbeat heartbeat;
  heartbeat.load_ns = kSecond;
  heartbeat.busy_ns = busy_ms * uint64_t(kMillisecond);
  heartbeat.loads = std::move(loads);
  return heartbeat;
}

TEST_CASE("load reports count from the second one after a change of ownership, the newest most",
          "[chief][core]") {
  WorkReports reports;
  const PsKey key{Incarnation{1}, 0};
  CHECK_FALSE(reports.changed());
  reports.take(key, report(900, {{PartitionId(3), 1000, 100'000}}));
  CHECK(reports.changed());
  CHECK_FALSE(reports.changed());
  reports.take(key, report(100, {{PartitionId(3), 100, 10'000}}));
  CHECK_FALSE(reports.work(key));
  reports.take(key, report(100, {{PartitionId(3), 100, 10'000}}));
  auto work = reports.work(key);
  REQUIRE(work);
  CHECK(work->busy == Approx(0.1));  // the first report does not count
  REQUIRE(work->partitions.size() == 1);
  CHECK(work->partitions[0].work == Approx(10'000 + 64 * 100));
  for (int n = 0; n < 10; ++n) reports.take(key, report(800, {}));
  work = reports.work(key);
  CHECK(work->busy == Approx(0.8).margin(0.01));
  CHECK(work->partitions[0].work < 200);
  wire::Heartbeat nothing;  // most heartbeats contain no load
  reports.take(key, nothing);
  CHECK(reports.work(key)->busy == work->busy);
  reports.reset();
  CHECK_FALSE(reports.work(key));
}

TEST_CASE("a distribution is lopsided if a core holds less than half of an even share, or leaves",
          "[chief][core]") {
  CHECK_FALSE(is_lopsided({{8}, {8}}));
  CHECK_FALSE(is_lopsided({{12}, {4}}));
  CHECK(is_lopsided({{13}, {3}}));
  CHECK(is_lopsided({{16}, {0}}));
  CHECK(is_lopsided({{8}, {8, true}}));
  CHECK_FALSE(is_lopsided({{16}, {0, true}}));
  CHECK_FALSE(is_lopsided({}));
}

}  // namespace
}  // namespace downpour::chief
