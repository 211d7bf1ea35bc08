// Pulls that wait for a synchronous step.
#include <numeric>

#include "tests/ps/core/sync_harness.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kBlocks = 8;
constexpr uint32_t kDenseFloats = kBlocks * kDenseBlockFloats;

PsConfig dense_config() {
  PsConfig config = sync_config(2);
  const OptimizerSpec sgd{.type = OptimizerType::kSgd, .learning_rate = 1.0F};
  VariableSpec kernel{.name = "kernel", .optimizer = sgd};
  kernel.shape = {kDenseFloats};
  config.tables = {{.name = "kernel", .kind = TableKind::kDense, .table_variables = {kernel}}};
  return config;
}

Bytes all_blocks() {
  std::vector<uint64_t> keys(kBlocks);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  return keys_of(std::move(keys));
}

/// Two replicas, each on a worker of its own.
struct DensePulls : SyncHarness {
  explicit DensePulls(const PsConfig& config = dense_config()) : SyncHarness(config) {}

  wire::Message pull(uint64_t worker) {
    wire::Message reply = step(worker,
                               wire::Pull{.worker = Incarnation{worker},
                                          .keep_handle = true,
                                          .sections = {{TableId{0}, kBlocks}}},
                               all_blocks());
    handle = RequestId{requests};
    return reply;
  }
  /// Stages a gradient for the rows of the replica's last pull.
  void stage(uint32_t replica, uint32_t batch, uint64_t at_step, RequestId pulled, float gradient) {
    wire::Push push = part(replica, batch, at_step, kBlocks);
    push.worker = Incarnation{9 + replica};
    push.handle = pulled;
    step(9 + replica, push, {}, Bytes::of(std::vector<float>(kDenseFloats, gradient)));
  }

  RequestId handle{};  // of the last pull
};

/// Sends a pull that waits for a step.
RequestId pull_ahead(DensePulls& ps, uint64_t worker, uint64_t at_step, ViewId view = {1, 1}) {
  wire::Message message{.envelope = {.run = 7, .view = view, .request = RequestId{++ps.requests}},
                        .body = wire::Pull{.worker = Incarnation{worker},
                                           .keep_handle = true,
                                           .sections = {{TableId{0}, kBlocks}},
                                           .step = at_step},
                        .keys = all_blocks()};
  const auto arrived = testing::travel(message);
  REQUIRE(arrived);
  ps.effects.clear();
  ps.core.on_message(0, worker, *arrived, ps.effects, {});
  return RequestId{ps.requests};
}

bool takes_all(PeerKey /*worker*/) { return true; }

TEST_CASE("a pull for a later step is answered when that step is next", "[ps][core]") {
  DensePulls ps;
  (void)ps.pull(9);
  ps.stage(0, 0, 1, ps.handle, 1.0F);
  const RequestId ahead = pull_ahead(ps, 9, 2);
  CHECK(ps.effects.sends.empty());
  CHECK_FALSE(ps.core.answer_pull(0, takes_all, ps.effects));
  (void)ps.pull(10);
  ps.stage(1, 0, 1, ps.handle, 2.0F);
  ps.commit(1, {kPartA, kPartB});
  ps.effects.clear();
  CHECK_FALSE(ps.core.answer_pull(
      0, [](PeerKey) { return false; }, ps.effects));
  REQUIRE(ps.core.answer_pull(0, takes_all, ps.effects));
  REQUIRE(ps.effects.sends.size() == 1);
  const Send& sent = ps.effects.sends[0];
  CHECK(sent.to == 9);
  CHECK(sent.message.envelope.request == ahead);
  CHECK(sent.message.values.load<float>(0) == -3.0F);
  CHECK(std::get<wire::PullReply>(sent.message.body).versions == std::vector<uint64_t>(4, 1));
  CHECK_FALSE(ps.core.answer_pull(0, takes_all, ps.effects));
  // Its handle can be used.
  ps.stage(0, 1, 2, ahead, 1.0F);
  CHECK(ps.core.step_stage().has(0, {0, 0, 1}, ps.core.partitions().stepped()));
}

TEST_CASE("no more pulls wait for a step than the limits allow", "[ps][core]") {
  PsConfig config = dense_config();
  config.limits.pulls_waiting_max = 3;
  DensePulls few(config);
  for (uint64_t i = 0; i < 5; ++i) {
    pull_ahead(few, 9, 2);
    if (i < 3) {
      CHECK(few.effects.sends.empty());
      continue;
    }
    REQUIRE(few.effects.sends.size() == 1);
    CHECK(std::get<wire::PullReply>(few.effects.sends[0].message.body).status ==
          wire::PullStatus::kOverloaded);
  }
  config = dense_config();
  config.limits.pulls_waiting_bytes_max = 2 * kBlocks * sizeof(uint64_t);
  DensePulls small(config);
  for (const bool kept : {true, true, false}) {
    pull_ahead(small, 9, 2);
    CHECK(small.effects.sends.empty() == kept);
  }
}

wire::PullStatus status_of(const DensePulls& ps) {
  REQUIRE(ps.effects.sends.size() == 1);
  return std::get<wire::PullReply>(ps.effects.sends[0].message.body).status;
}

TEST_CASE("a pull for a step that is far away does not wait", "[ps][core]") {
  DensePulls ps;
  pull_ahead(ps, 9, 3);
  CHECK(status_of(ps) == wire::PullStatus::kOverloaded);
  pull_ahead(ps, 9, UINT64_MAX);
  CHECK(status_of(ps) == wire::PullStatus::kOverloaded);
}

TEST_CASE("a pull of rows that the core no longer has does not wait", "[ps][core]") {
  DensePulls ps;
  pull_ahead(ps, 9, 2);
  wire::View view{.id = {1, 2}};
  view.owners.push_back({.incarnation = Incarnation{1}, .endpoint = "inproc://ps"});
  view.owners.push_back({.incarnation = Incarnation{2}, .endpoint = "inproc://other"});
  for (uint32_t p = 0; p < 4; ++p) view.partitions.push_back({1, {1, 2}});
  ps.step(kChiefPeer, view);
  ps.effects.clear();
  CHECK_FALSE(ps.core.answer_pull(0, takes_all, ps.effects));
  pull_ahead(ps, 9, 2, {1, 2});
  CHECK(status_of(ps) == wire::PullStatus::kWrongView);
}

TEST_CASE("a new view drops the pulls that wait for a step", "[ps][core]") {
  PsConfig config = dense_config();
  config.limits.pulls_waiting_max = 1;
  DensePulls ps(config);
  pull_ahead(ps, 9, 2);
  wire::View view{.id = {1, 2}};
  view.owners.push_back({.incarnation = Incarnation{1}, .endpoint = "inproc://ps"});
  for (uint32_t p = 0; p < 4; ++p) view.partitions.push_back({0, {1, 1}});
  ps.step(kChiefPeer, view);
  pull_ahead(ps, 9, 2, {1, 2});
  CHECK(ps.effects.sends.empty());  // there is room for it
}

TEST_CASE("asynchronous training answers a pull at once", "[ps][core]") {
  PsConfig config = dense_config();
  config.steps.reset();
  DensePulls ps(config);
  pull_ahead(ps, 9, 2);
  CHECK(ps.effects.sends.size() == 1);
}

}  // namespace
}  // namespace downpour::ps
