#include "tools/sim/faults.h"

#include <algorithm>
#include <array>

#include <catch2/catch.hpp>

#include "shared/wire/messages.h"

namespace downpour::sim {
namespace {

TEST_CASE("a list of faults states how often each fault happens", "[sim]") {
  const auto spec = parse_faults("kill-ps=10m,drop=1%,power=1h,tiny-queues");
  REQUIRE(spec);
  CHECK_FALSE(spec->swarm);
  CHECK(spec->kinds.at(FaultKind::kKillPs).period_ns == 600 * kSecond);
  CHECK(spec->kinds.at(FaultKind::kDrop).rate == 0.01);
  const FaultPlan plan = make_plan(*spec, 1);
  CHECK(plan.heal_ns == INT64_MAX);
  CHECK(plan.drop == 0.01);
  const auto kills = std::count_if(plan.events.begin(), plan.events.end(), [](const FaultEvent& e) {
    return e.kind == FaultKind::kKillPs;
  });
  CHECK(kills > 100);  // a day has 144 periods of ten minutes
  CHECK(kills < 190);
  CHECK(std::is_sorted(plan.events.begin(), plan.events.end(),
                       [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; }));
}

TEST_CASE("an unknown fault or a malformed number is an error that names it", "[sim]") {
  CHECK(parse_faults("kill-pz").error().what.find("kill-pz") != std::string::npos);
  CHECK(parse_faults("kill-ps").has_value());
  for (const char* text : {"kill-ps=10", "drop=200%", "drop=x", "tiny-queues=3"})
    CHECK_FALSE(parse_faults(text));
  CHECK(parse_faults("none")->empty());
}

TEST_CASE("a probability can apply to messages of one kind, and to those that go to one role",
          "[sim]") {
  const auto spec = parse_faults("worker.View:lose=90%,StatusReply:kill-sender=0.5");
  REQUIRE(spec);
  REQUIRE(spec->points.size() == 2);
  CHECK(spec->points[0].to == wire::Role::kWorker);
  CHECK(spec->points[0].body == wire::Body(wire::View{}).index());
  CHECK(spec->points[0].chance == 0.9);
  CHECK_FALSE(spec->points[1].to);
  CHECK(spec->points[1].action == FaultPoint::Action::kKillSender);
  CHECK(make_plan(*spec, 1).points.size() == 2);
  const auto repeats = parse_faults("ps.Freeze:repeat=20%");
  REQUIRE(repeats);
  CHECK(repeats->points.at(0).action == FaultPoint::Action::kRepeat);
  CHECK(parse_faults("LeaseGrant:pause=1%")->points.at(0).action == FaultPoint::Action::kPause);
  CHECK(parse_faults("StatusReply:stall=1%")->points.at(0).action == FaultPoint::Action::kStall);
  for (const char* text : {"Viev:lose=90%", "boss.View:lose=90%", "View:love=90%", "View:lose",
                           "View:lose=900%", "View:=1%", ":lose=1%"}) {
    INFO(text);
    CHECK_FALSE(parse_faults(text));
  }
}

TEST_CASE("chaos enables and disables kinds depending on the seed, and ends", "[sim]") {
  const FaultSpec chaos = *parse_faults("chaos");
  std::array<int, kFaultKinds> on{};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const FaultPlan plan = make_plan(chaos, seed);
    REQUIRE(plan.heal_ns < 60 * kSecond);
    for (size_t k = 0; k < kFaultKinds; ++k) on[k] += plan.on[k] ? 1 : 0;
    for (const FaultEvent& event : plan.events) REQUIRE(event.at_ns < plan.heal_ns);
  }
  for (size_t k = 0; k < kFaultKinds; ++k) {
    INFO(fault_name(FaultKind(k)));
    if (!in_chaos(FaultKind(k))) {
      CHECK(on[k] == 0);
      continue;
    }
    CHECK(on[k] > 20);
    CHECK(on[k] < 160);
  }
}

TEST_CASE("kinds named in addition to chaos happen under every seed, and `ends` ends periodic ones",
          "[sim]") {
  const FaultSpec both = *parse_faults("chaos,damage");
  const FaultSpec ending = *parse_faults("kill-ps=500ms,drop=1%,ends");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(make_plan(both, seed).on[size_t(FaultKind::kDamage)]);
    const FaultPlan plan = make_plan(ending, seed);
    CHECK(plan.heal_ns < 60 * kSecond);
    CHECK_FALSE(plan.events.empty());
    for (const FaultEvent& event : plan.events) CHECK(event.at_ns < plan.heal_ns);
  }
}

TEST_CASE("a plan can be reduced to fewer kinds and to some of its moments", "[sim]") {
  const FaultSpec chaos = *parse_faults("chaos");
  const FaultPlan plan = make_plan(chaos, 3);
  REQUIRE(plan.events.size() > 3);
  const FaultPlan less =
      reduced(plan, {plan.events[0].kind, FaultKind::kDrop}, std::vector<uint32_t>{0, 1, 2});
  CHECK(less.drop == 0);
  CHECK(less.events.size() < 3);
  for (const FaultEvent& event : less.events) CHECK(event.kind != plan.events[0].kind);
}

}  // namespace
}  // namespace downpour::sim
