#include "chief/core/work/clocks.h"

#include <catch2/catch.hpp>

namespace downpour::chief {
namespace {

constexpr Incarnation kA{1}, kB{2};

struct Pass {
  Pass() {
    config.job.train.staleness = 8;
    config.lease_ns = 3 * kSecond;
  }
  void grant(Clocks& clocks, Incarnation worker) {
    REQUIRE(table.grant(0, worker));
    clocks.start(worker);
  }
  ChiefConfig config;
  LeaseTable table{wire::Lease{}, 4};
};

TEST_CASE("the floor is the lowest clock of the workers that hold a lease", "[chief]") {
  Pass pass;
  Clocks clocks(pass.config);
  CHECK_FALSE(clocks.raise(0, pass.table));  // there is no lease
  pass.grant(clocks, kA);
  pass.grant(clocks, kB);
  clocks.take(0, kA, {.batches = 3});
  CHECK_FALSE(clocks.raise(0, pass.table));
  clocks.take(0, kB, {.batches = 2});
  CHECK(clocks.raise(0, pass.table) == 2);
  CHECK_FALSE(clocks.raise(0, pass.table));  // it is told once
  clocks.take(0, kB, {.batches = 1});        // a late report
  CHECK_FALSE(clocks.raise(0, pass.table));
  for (const uint32_t shard : pass.table.held_by(kB)) pass.table.release(shard, kB);
  clocks.forget(kB);
  CHECK(clocks.raise(0, pass.table) == 3);  // a worker without a lease leaves the bound
}

TEST_CASE("a worker that joins starts at the floor", "[chief]") {
  Pass pass;
  Clocks clocks(pass.config);
  pass.grant(clocks, kA);
  clocks.take(0, kA, {.batches = 7});
  REQUIRE(clocks.raise(0, pass.table) == 7);
  pass.grant(clocks, kB);
  clocks.take(0, kB, {.batches = 0});
  CHECK_FALSE(clocks.raise(0, pass.table));  // the floor never decreases
  clocks.take(0, kA, {.batches = 9});
  clocks.take(0, kB, {.batches = 8});
  CHECK(clocks.raise(0, pass.table) == 8);
}

TEST_CASE("a chief that continues a run learns the floor, and raises it after one lease time",
          "[chief]") {
  Pass pass;
  pass.config.term = 2;
  Clocks clocks(pass.config);
  clocks.take(kSecond, kB, {.batches = 6, .floor = 5});  // published by the earlier chief
  CHECK(clocks.floor() == 5);
  clocks.begin(kSecond);
  REQUIRE(pass.table.take_up(kSecond, kB, {.shard = {0, 1}, .attempt = 1}));
  CHECK_FALSE(clocks.raise(2 * kSecond, pass.table));  // the lease of kA is not known
  REQUIRE(pass.table.take_up(2 * kSecond, kA, {.attempt = 1}));
  CHECK_FALSE(clocks.raise(3 * kSecond, pass.table));
  CHECK_FALSE(clocks.raise(5 * kSecond, pass.table));  // the clock of kA is not known
  clocks.take(5 * kSecond, kA, {.batches = 7, .floor = 6});
  CHECK(clocks.floor() == 5);  // too late to tell a floor
  CHECK(clocks.raise(5 * kSecond, pass.table) == 6);
}

TEST_CASE("no report raises a clock by more than the bound allows", "[chief]") {
  Pass pass;
  Clocks clocks(pass.config);
  pass.grant(clocks, kA);
  clocks.take(0, kA, {.batches = 1'000'000});
  CHECK(clocks.raise(0, pass.table) == 9);  // the bound is 8
  clocks.take(0, kA, {.batches = 1'000'000, .floor = 999'999});
  CHECK(clocks.raise(0, pass.table) == 18);
}

TEST_CASE("a worker that keeps the others waiting loses its leases, and pauses", "[chief]") {
  Pass pass;
  const int64_t stall = pass.config.lease_stall_ns;
  Clocks clocks(pass.config);
  pass.grant(clocks, kA);
  pass.grant(clocks, kB);
  CHECK_FALSE(clocks.raise(0, pass.table));
  clocks.take(0, kA, {.batches = 2});
  CHECK(clocks.slow(stall, pass.table).empty());
  CHECK(clocks.slow(stall + 1, pass.table) == std::vector<Incarnation>{kB});
  CHECK_FALSE(clocks.may_lease(2 * stall, kB));
  CHECK(clocks.may_lease(2 * stall + 1, kB));
  CHECK(clocks.may_lease(stall + 2, kA));
}

TEST_CASE("the time without a rise begins with the pass, whatever the clock of the machine says",
          "[chief]") {
  constexpr int64_t kUptime = 40'000 * kSecond;
  Pass pass;
  const int64_t stall = pass.config.lease_stall_ns;
  Clocks first(pass.config);
  pass.grant(first, kA);
  first.begin_pass(kUptime);
  CHECK(first.slow(kUptime + stall, pass.table).empty());
  CHECK(first.slow(kUptime + stall + 1, pass.table) == std::vector<Incarnation>{kA});

  pass.config.term = 2;
  Clocks second(pass.config);
  second.begin_pass(kUptime);
  second.begin(kUptime);
  const int64_t learned_ns = kUptime + pass.config.lease_ns;
  CHECK(second.slow(learned_ns + stall, pass.table).empty());
  CHECK(second.slow(learned_ns + stall + 1, pass.table) == std::vector<Incarnation>{kA});
}

TEST_CASE("a later chief that started its workers itself raises the floor at once", "[chief]") {
  Pass pass;
  pass.config.term = 2;
  for (const bool local : {false, true}) {
    pass.config.local = local;
    Clocks clocks(pass.config);
    clocks.begin(kSecond);
    clocks.begin_pass(kSecond);
    Pass own;
    own.grant(clocks, kA);
    clocks.take(kSecond, kA, {.batches = 2, .floor = 0, .sent_ns = kSecond});
    CHECK(clocks.raise(kSecond + 1, own.table).has_value() == local);
    CHECK(clocks.raise(kSecond + pass.config.lease_ns, own.table).has_value() != local);
  }
}

TEST_CASE("workers for which no other one waits lose their leases without a pause", "[chief]") {
  Pass pass;
  const int64_t stall = pass.config.lease_stall_ns;
  Clocks clocks(pass.config);
  pass.grant(clocks, kA);
  CHECK(clocks.slow(stall + 1, pass.table) == std::vector<Incarnation>{kA});
  CHECK(clocks.may_lease(stall + 1, kA));
}

}  // namespace
}  // namespace downpour::chief
