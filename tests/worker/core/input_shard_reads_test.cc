#include "worker/core/input_shard_reads.h"

#include <catch2/catch.hpp>

namespace downpour::worker {
namespace {

constexpr InputPeer kAnn{1}, kBob{2};
constexpr uint64_t kPlan = 5;

/// The core, with readers that finish when the test says so.
struct Desk {
  InputShardReads shard_reads;
  InputEffects fx;
  int64_t now_ns = 0;

  explicit Desk(InputConfig config = {}) : shard_reads(planned(config)) {}
  static InputConfig planned(InputConfig config) {
    config.plan_hash = kPlan;
    return config;
  }

  InputEffects& ask(InputPeer peer, uint64_t shard_read, uint32_t window = 4, uint32_t first = 0,
                    uint64_t plan = kPlan) {
    fx.clear();
    wire::ReadShard request{.shard_read = shard_read, .first_batch = first, .window = window};
    request.lease.plan_hash = plan;
    shard_reads.on_read_shard(now_ns, peer, request, fx);
    return fx;
  }
  InputEffects& more(InputPeer peer, uint64_t shard_read, uint32_t next, bool stop = false) {
    fx.clear();
    shard_reads.on_read_more(now_ns, peer, {.shard_read = shard_read, .next = next, .stop = stop},
                             fx);
    return fx;
  }
  InputEffects& batch(uint64_t id, uint64_t bytes = 100) {
    fx.clear();
    InputItem item{.id = id, .bytes = bytes};
    item.messages.push_back({.body = wire::ReadBatch{.shard_read = 7}});
    shard_reads.on_item(std::move(item), fx);
    return fx;
  }
  InputEffects& end(uint64_t id) {
    fx.clear();
    InputItem item{.id = id, .last = true};
    item.messages.push_back({.body = wire::ReadEnd{.shard_read = 7}});
    shard_reads.on_item(std::move(item), fx);
    return fx;
  }
  InputEffects& tick() {
    fx.clear();
    shard_reads.on_tick(now_ns, fx);
    return fx;
  }
};

std::string refusal(const InputEffects& fx);

TEST_CASE("only a worker's key may request shard reads", "[worker][core][roles]") {
  for (const wire::Role role : {wire::Role::kPs, wire::Role::kInput, wire::Role::kChief}) {
    Desk desk;
    wire::ReadShard request{.shard_read = 1, .window = 4};
    request.lease.plan_hash = kPlan;
    desk.shard_reads.on_read_shard(0, kAnn, request, desk.fx, {role, "k", "00"});
    CHECK(desk.fx.reads.empty());
    CHECK_THAT(refusal(desk.fx), Catch::Contains("DP-2715"));
  }
  Desk desk;
  wire::ReadShard request{.shard_read = 1, .window = 4};
  request.lease.plan_hash = kPlan;
  desk.shard_reads.on_read_shard(0, kAnn, request, desk.fx, {wire::Role::kWorker, "k", "00"});
  CHECK(desk.fx.reads.size() == 1);
}

std::string refusal(const InputEffects& fx) {
  for (const InputEffects::Send& send : fx.sends) {
    const auto* failed = std::get_if<wire::ReadFailed>(&send.message.body);
    if (failed == nullptr) continue;
    return failed->what + (failed->code == ErrorCode::kPeersLost ? ": ask again" : "");
  }
  return {};
}

}  // namespace

TEST_CASE("a shard read runs ahead by its window, and continues when its batches are acknowledged",
          "[worker][input]") {
  Desk desk;
  REQUIRE(desk.ask(kAnn, 7, 2).reads.size() == 1);
  const uint64_t id = desk.fx.reads[0].id;
  REQUIRE(desk.fx.reads[0].open);
  CHECK(desk.batch(id).reads.size() == 1);  // the second, while the first is not acknowledged
  CHECK_FALSE(desk.fx.reads[0].open);
  CHECK(desk.fx.sends.size() == 1);
  CHECK(desk.fx.sends[0].to == kAnn);
  CHECK(desk.batch(id).reads.empty());  // the window is full
  CHECK(desk.more(kAnn, 7, 0).reads.empty());
  CHECK(desk.fx.sends.size() == 1);  // but the message is returned as a sign of life
  CHECK(desk.more(kAnn, 7, 1).reads.size() == 1);
  CHECK(desk.shard_reads.bytes() == 100);
  CHECK(desk.end(id).closes == std::vector{id});
  CHECK(desk.shard_reads.size() == 0);
  CHECK(desk.shard_reads.bytes() == 0);
}

TEST_CASE("a large batch waits until the one before it is acknowledged, at any window",
          "[worker][input]") {
  Desk desk({.window_bytes = 1000});
  const uint64_t id = desk.ask(kAnn, 7, 16).reads[0].id;
  CHECK(desk.batch(id, 5000).reads.empty());
  CHECK(desk.more(kAnn, 7, 1).reads.size() == 1);
}

TEST_CASE("all shard reads together are limited, but each may have one batch in flight",
          "[worker][input]") {
  Desk desk({.bytes_max = 1000});
  const uint64_t ann = desk.ask(kAnn, 1, 16).reads[0].id;
  const uint64_t bob = desk.ask(kBob, 1, 16).reads[0].id;
  CHECK(desk.batch(ann, 1200).reads.empty());
  CHECK(desk.batch(bob, 300).reads.empty());       // its one guaranteed batch has been sent
  CHECK(desk.more(kBob, 1, 1).reads.size() == 1);  // the next one follows when that is acknowledged
  CHECK(desk.batch(bob, 300).reads.empty());
  CHECK(desk.more(kAnn, 1, 1).reads.size() == 2);  // there is room for both
}

TEST_CASE("only open_max shards are open at once; the others wait for their turn",
          "[worker][input]") {
  Desk desk({.open_max = 1});
  const uint64_t first = desk.ask(kAnn, 1).reads[0].id;
  CHECK(desk.ask(kBob, 1).reads.empty());
  CHECK(refusal(desk.fx).empty());
  desk.more(kBob, 1, 0);
  CHECK(desk.fx.sends.size() == 1);  // it waits, and gets a sign of life
  REQUIRE(desk.end(first).reads.size() == 1);
  CHECK(desk.fx.reads[0].open);
}

TEST_CASE("a repeated request changes nothing", "[worker][input]") {
  Desk desk;
  desk.ask(kAnn, 7);
  CHECK(desk.ask(kAnn, 7).reads.empty());
  CHECK(desk.ask(kBob, 7).reads.size() == 1);  // the same number at another worker
  CHECK(desk.shard_reads.size() == 2);
}

TEST_CASE("a shard read begins at the requested batch", "[worker][input]") {
  Desk desk;
  const uint64_t id = desk.ask(kAnn, 7, 1, 10).reads[0].id;
  CHECK(desk.fx.reads[0].open->first_batch == 10);
  desk.batch(id);
  CHECK(desk.more(kAnn, 7, 10).reads.empty());
  CHECK(desk.more(kAnn, 7, 11).reads.size() == 1);
}

TEST_CASE("a request with another plan and an unknown shard read are refused", "[worker][input]") {
  Desk desk;
  CHECK(refusal(desk.ask(kAnn, 7, 4, 0, kPlan + 1)) ==
        "the shard read belongs to another plan than this input process uses");
  CHECK(desk.fx.reads.empty());
  CHECK(refusal(desk.more(kAnn, 8, 3)) ==
        "this input process does not know the shard read: ask again");
  CHECK(desk.more(kAnn, 8, 3, /*stop=*/true).sends.empty());
}

TEST_CASE("a shard read is dropped when it is stopped, idle, or its worker is gone",
          "[worker][input]") {
  Desk desk({.open_max = 1, .idle_ns = 60 * kSecond});
  const uint64_t stopped = desk.ask(kAnn, 1).reads[0].id;
  desk.ask(kAnn, 2);
  CHECK(desk.more(kAnn, 1, 0, /*stop=*/true).closes == std::vector{stopped});
  REQUIRE(desk.fx.reads.size() == 1);  // the turn of the next one
  const uint64_t id = desk.fx.reads[0].id;
  CHECK(desk.batch(stopped).sends.empty());  // the result of a stopped shard read is dropped
  desk.now_ns = 59 * kSecond;
  CHECK(desk.tick().closes.empty());
  desk.more(kAnn, 2, 0);
  desk.now_ns = 118 * kSecond;
  CHECK(desk.tick().closes.empty());
  desk.now_ns = 120 * kSecond;
  CHECK(desk.tick().closes == std::vector{id});
  CHECK(refusal(desk.fx) == "the input process dropped the shard read: ask again");
  desk.ask(kBob, 1);
  desk.fx.clear();
  desk.shard_reads.on_peer_gone(kBob, desk.fx);
  CHECK(desk.shard_reads.size() == 0);
}

TEST_CASE("a new request replaces a shard read that has been idle for long, if there is no room",
          "[worker][input]") {
  Desk desk({.shard_reads_max = 2, .spare_ns = 10 * kSecond});
  desk.ask(kAnn, 1);
  desk.ask(kAnn, 2);
  CHECK(refusal(desk.ask(kBob, 1)).find("open shard reads, which is the maximum") !=
        std::string::npos);
  desk.now_ns = 11 * kSecond;
  desk.more(kAnn, 1, 0);
  CHECK(desk.ask(kBob, 1).reads.size() == 1);
  CHECK(refusal(desk.more(kAnn, 2, 0)).find("does not know the shard read") != std::string::npos);
  CHECK(refusal(desk.more(kAnn, 1, 0)).empty());
}

}  // namespace downpour::worker
