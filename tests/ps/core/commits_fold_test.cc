// The sum of a synchronous step at a ps core: the order in which parts are added, what has no room,
// and when the sum begins anew.
#include <array>
#include <map>

#include "shared/base/hash.h"
#include "tests/ps/core/sync_harness.h"

namespace downpour::ps {
namespace {

// Returns the shards that the replicas begin with.
wire::Expect expect_of(uint64_t version, std::vector<uint32_t> replicas) {
  wire::Expect expect{.version = version, .parts = {}};
  for (const uint32_t replica : replicas) expect.parts.push_back({replica, {0, replica, 0}});
  return expect;
}

const std::vector<wire::StepPart> kThreeParts = {{0, {0, 0, 0}}, {1, {0, 1, 0}}, {2, {0, 2, 0}}};

TEST_CASE("gradients are added in the order of the replicas, whatever the order of arrival",
          "[ps][core]") {
  constexpr float kGradients[] = {1e8F, 1.0F, -1e8F};  // in any other order the sum is 1
  const bool known = GENERATE(true, false);
  const auto order = GENERATE(std::vector<uint32_t>{0, 1, 2}, std::vector<uint32_t>{2, 1, 0},
                              std::vector<uint32_t>{1, 2, 0}, std::vector<uint32_t>{0, 2, 1});
  SyncHarness ps(sync_config(3));
  if (known) ps.step(kChiefPeer, expect_of(1, {0, 1, 2}));
  for (const uint32_t replica : order) ps.stage(replica, 0, 1, {3, 4}, kGradients[replica]);
  if (known) CHECK(ps.core.step_stage().bytes() == 0);  // all are in the sum
  ps.commit(1, kThreeParts);
  REQUIRE(ps.push_replies().size() == 3);
  CHECK(ps.weight(3) == 0.0F);
  CHECK(ps.weight(4) == 0.0F);
  ps.stage(0, 1, 2, {3}, 5.0F);  // the next step begins at 0
  ps.commit(2, {{0, {0, 0, 1}}});
  CHECK(ps.weight(3) == -5.0F);
}

TEST_CASE("the sum of a step has every key, however many there are", "[ps][core]") {
  SyncHarness ps(sync_config(3));
  ps.step(kChiefPeer, expect_of(1, {0, 1, 2}));
  std::map<uint64_t, float> sums;
  for (const uint32_t replica : {0U, 1U, 2U}) {
    const float gradient = std::array{1.0F, 10.0F, 100.0F}[replica];
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 3000; ++key) keys.push_back(key * (replica + 1));
    keys.push_back(keys[7]);  // a repeated key counts each time
    for (const uint64_t key : keys) sums[key] += gradient;
    ps.stage(replica, 0, 1, keys, gradient);
  }
  ps.commit(1, kThreeParts);
  size_t wrong = 0;
  for (const auto& [key, sum] : sums) wrong += ps.weight(key) == -sum ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("a part that has no room before its turn is asked for when its turn has come",
          "[ps][core]") {
  PsConfig config = sync_config(4);
  config.limits.step_early_bytes_max = 30;  // one part of 24 bytes
  SyncHarness ps(config);
  ps.step(kChiefPeer, expect_of(1, {0, 1, 2, 3}));
  ps.stage(1, 0, 1, {3}, 1.0F);
  ps.stage(2, 0, 1, {3}, 10.0F);
  ps.stage(3, 0, 1, {3}, 100.0F);
  ps.stage(3, 0, 1, {3}, 100.0F);  // the worker repeats it
  CHECK(ps.push_replies().empty());
  CHECK(ps.core.step_stage().bytes() == 24);
  ps.commit(1, kThreeParts);
  CHECK(ps.effects.sends.empty());
  ps.stage(0, 0, 1, {3}, 1000.0F);  // its turn, so that it always has room
  CHECK(ps.core.step_stage().bytes() == 0);
  // Replica 2 comes next, and there is room for one more.
  const std::vector<wire::PushReply> asked = ps.push_replies();
  REQUIRE(asked.size() == 2);
  for (const uint32_t i : {0U, 1U}) {
    CHECK(asked[i].batch == BatchId{0, 2 + i, 0});
    REQUIRE(asked[i].others.size() == 4);
    for (const wire::PartReply& part : asked[i].others)
      CHECK(part.status == wire::PartStatus::kSendAgain);
  }
  ps.stage(3, 0, 1, {3}, 100.0F);
  CHECK(ps.push_replies().empty());
  ps.stage(2, 0, 1, {3}, 10.0F);
  ps.commit(1, {{0, {0, 0, 0}}, {1, {0, 1, 0}}, {2, {0, 2, 0}}, {3, {0, 3, 0}}});
  CHECK(ps.push_replies().size() == 4);
  CHECK(ps.weight(3) == -1111.0F);
}

TEST_CASE("a refused part is asked for once its shard is the current one", "[ps][core]") {
  PsConfig config = sync_config(1);
  config.limits.step_early_bytes_max = 0;
  SyncHarness ps(config);
  ps.step(kChiefPeer, wire::Expect{.version = 1, .parts = {{0, {0, 5, 0}}}});
  ps.stage(0, 0, 1, {3}, 1.0F);
  CHECK(ps.push_replies().empty());
  CHECK_FALSE(ps.core.step_stage().empty());
  ps.step(kChiefPeer, expect_of(1, {0}));  // not newer
  CHECK(ps.push_replies().empty());
  ps.step(kChiefPeer, expect_of(2, {0}));
  CHECK(ps.push_replies().size() == 1);
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.commit(1, {kPartA});
  CHECK(ps.weight(3) == -1.0F);
}

TEST_CASE("if the sum has a part that the step may not have, all parts are sent again",
          "[ps][core]") {
  enum Cause : uint8_t { kExpect, kCommit, kMarker, kEarlierShard };
  const Cause cause = GENERATE(kExpect, kCommit, kMarker, kEarlierShard);
  CAPTURE(int(cause));
  PsConfig config = sync_config(2);
  config.steps->in_turn = false;
  SyncHarness ps(config);
  ps.step(kChiefPeer, wire::Expect{.version = 1, .parts = {{0, {0, 3, 0}}, {1, {0, 1, 0}}}});
  wire::Push later = ps.part(0, 0, 1, 1);
  later.batch.shard = 3;
  ps.step(9, later, keys_of({3}), rows_of(1, 1.0F));
  ps.stage(1, 0, 1, {3}, 10.0F);
  CHECK(ps.push_replies().empty());
  switch (cause) {
    case kExpect:
      ps.step(kChiefPeer, expect_of(2, {0, 1}));
      break;
    case kCommit:
      ps.commit(1, {kPartB});
      break;
    case kMarker:
      ps.step(kChiefPeer, wire::StatusRequest{.round = 1, .shards = 4, .markers = {{{0, 3, 0}}}});
      break;
    case kEarlierShard:
      ps.stage(0, 0, 1, {3}, 100.0F);
      break;
  }
  REQUIRE(ps.push_replies().size() == 2);
  for (const wire::PushReply& reply : ps.push_replies())
    CHECK(reply.others[0].status == wire::PartStatus::kSendAgain);
  CHECK(ps.weight(3) == 0.0F);
  ps.stage(0, 0, 1, {3}, 100.0F);
  ps.stage(1, 0, 1, {3}, 10.0F);
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == -110.0F);
}

// Returns the keys below 20 of the first two partitions, and those of the others.
std::array<std::vector<uint64_t>, 2> halves() {
  std::array<std::vector<uint64_t>, 2> keys;
  for (uint64_t key = 0; key < 20; ++key)
    keys[raw(partition_of(row_hash(TableId{0}, key), 2)) / 2].push_back(key);
  return keys;
}

TEST_CASE("the parts of a replica are added before those of the next one, in several messages too",
          "[ps][core]") {
  constexpr float kGradients[] = {1.0F, 1e8F, -1e8F};  // in any other order a sum may be 1
  SyncHarness ps(sync_config(3));
  ps.step(kChiefPeer, expect_of(1, {0, 1, 2}));
  const auto keys = halves();
  const auto stage_half = [&](uint32_t replica, uint32_t half) {
    wire::Push push = ps.part(replica, 0, 1, uint32_t(keys[half].size()));
    push.covered = {};
    for (const uint32_t p : {0U, 1U}) push.covered.insert(PartitionId(2 * half + p));
    ps.step(9 + replica, push, keys_of(keys[half]),
            rows_of(keys[half].size(), kGradients[replica]));
  };
  stage_half(0, 0);
  stage_half(0, 1);
  CHECK(ps.core.step_stage().bytes() == 0);  // the replica is complete, and in the sum
  for (const uint32_t replica : {1U, 2U}) {
    stage_half(replica, 1);
    stage_half(replica, 0);
  }
  ps.commit(1, kThreeParts);
  for (uint64_t key = 0; key < 20; ++key) CHECK(ps.weight(key) == 0.0F);
}

TEST_CASE("two workers with different messages of a batch count it once in the sum", "[ps][core]") {
  SyncHarness ps(sync_config(1));
  ps.step(kChiefPeer, expect_of(1, {0}));
  const auto keys = halves();
  wire::Push half = ps.part(0, 0, 1, uint32_t(keys[0].size()));
  half.covered = {};
  for (const uint32_t p : {0U, 1U}) half.covered.insert(PartitionId(p));
  ps.step(9, half, keys_of(keys[0]), rows_of(keys[0].size(), 1.0F));
  std::vector<uint64_t> all = keys[0];
  all.insert(all.end(), keys[1].begin(), keys[1].end());
  ps.step(10, ps.part(0, 0, 1, 20), keys_of(all), rows_of(20, 1.0F));
  ps.commit(1, {kPartA});
  CHECK(ps.push_replies().size() == 2);
  for (uint64_t key = 0; key < 20; ++key) CHECK(ps.weight(key) == -1.0F);
}

TEST_CASE("a report names the newest Expect, also before a part is complete", "[ps][core]") {
  PsConfig config = sync_config(2);
  config.limits.step_early_bytes_max = 0;
  SyncHarness ps(config);
  ps.step(kChiefPeer, expect_of(7, {1}));
  ps.stage(0, 0, 1, {3}, 1.0F);  // refused
  ps.effects.clear();
  ps.core.on_tick(2 * kSecond, ps.effects);
  bool found = false;
  for (const Send& send : ps.effects.sends) {
    if (const auto* staged = std::get_if<wire::Staged>(&send.message.body)) {
      found = true;
      CHECK(*staged == wire::Staged{.step = 1, .parts = {}, .expects = 7});
    }
  }
  CHECK(found);
}

}  // namespace
}  // namespace downpour::ps
