// Roles and the run folder: which peers a ps serves, and where it reads and writes.
#include <catch2/catch.hpp>

#include "tests/ps/core/ps_harness.h"

namespace downpour::ps {
namespace {

TEST_CASE("a ps obeys only a chief's key and serves only a worker's key", "[ps][core][roles]") {
  const wire::Role roles[] = {wire::Role::kChief, wire::Role::kPs, wire::Role::kWorker,
                              wire::Role::kInput};
  for (const wire::Role role : roles) {
    CAPTURE(wire::role_text(role));
    PsHarness ps;
    const wire::PeerIdentity key{role, "somebody", "00"};
    const Bytes two_keys = Bytes::of(std::vector<uint64_t>{1, 2});
    const wire::Push push{
        .worker = Incarnation{9}, .batch = {0, 0, 0}, .records = 1, .covered = ps.all};
    const bool is_worker = role == wire::Role::kWorker;
    const wire::Message pulled = ps.step(
        9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, 2}}}, two_keys, {}, key);
    CHECK(std::holds_alternative<wire::PullReply>(pulled.body) == is_worker);
    if (!is_worker) {
      const auto& reject = std::get<wire::Reject>(pulled.body);
      CHECK(reject.code == ErrorCode::kPermission);
      CHECK_THAT(reject.what, Catch::Contains("`somebody`") && Catch::Contains("DP-2715") &&
                                  Catch::Contains(wire::role_text(role)));
      CHECK(ps.effects.notices.size() == 1);
      ps.step(9, push, {}, {}, key);
      CHECK(ps.effects.notices.empty());  // at most one in ten seconds
    }
    const wire::Message answer = ps.step(kChiefPeer, wire::StatusRequest{}, {}, {}, key);
    CHECK(std::holds_alternative<wire::StatusReply>(answer.body) == (role == wire::Role::kChief));
    // On a worker's connection the core obeys no message of a chief, whatever the key.
    CHECK(std::holds_alternative<wire::Reject>(ps.step(9, wire::Stop{}, {}, {}, key).body));
    CHECK_FALSE(ps.effects.exit);
  }
}

TEST_CASE("a ps writes and reads images only below its run folder", "[ps][core][roles]") {
  PsConfig config = small_config();
  config.run_dir = "/runs/clicks";
  const char* const outside[] = {"/",
                                 "/etc",
                                 "/runs/clicks",
                                 "/runs/clicks/",
                                 "/runs/clicks2/checkpoints",
                                 "/runs/clicks/../other",
                                 "/runs/clicks/checkpoints/..",
                                 "/runs/clicks/./checkpoints",
                                 "/runs/clicks//checkpoints",
                                 "/runs/clicks/checkpoints/",
                                 "/runs/clicks/.hidden",
                                 "/runs/clicks/-x",
                                 "/runs/clicks/a b",
                                 "checkpoints/1-1"};
  for (const char* folder : outside) {
    CAPTURE(folder);
    PsHarness ps(config);
    const auto saved = std::get<wire::Saved>(
        ps.step(kChiefPeer, wire::Save{.checkpoint = {1, 1}, .folder = folder}).body);
    CHECK_FALSE(saved.ok);
    CHECK_THAT(saved.error,
               Catch::Contains("not below the run folder") && Catch::Contains("DP-2722"));
    CHECK_FALSE(ps.core.saves());
    const wire::Freeze freeze{
        .ownership_generation = {1, 9}, .partitions = {PartitionId{0}}, .folder = folder};
    CHECK_FALSE(std::get<wire::Frozen>(ps.step(kChiefPeer, freeze).body).ok);
    CHECK(ps.effects.exports.empty());
    const wire::Adopt adopt{.ownership_generation = {1, 9},
                            .partitions = {PartitionId{0}},
                            .folder = folder,
                            .images = {{.partition = PartitionId{0}, .file = "f"}}};
    CHECK_FALSE(std::get<wire::Adopted>(ps.step(kChiefPeer, adopt).body).ok);
    CHECK(ps.effects.loads.empty());
  }
  PsHarness ps(config);
  ps.step(kChiefPeer, wire::Save{.checkpoint = {1, 1}, .folder = "/runs/clicks/checkpoints/1-1"});
  CHECK(ps.core.saves());
}

}  // namespace
}  // namespace downpour::ps
