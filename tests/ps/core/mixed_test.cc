// Mode "mixed" at a ps core: the parts of one half of the partitions are applied when they arrive,
// those of the other half with their step.
#include "tests/ps/core/ps_harness.h"

namespace downpour::ps {
namespace {

// Of four partitions, 0 and 1 apply steps, and 2 and 3 apply parts when they arrive.
PsConfig mixed_config() {
  PsConfig config = small_config();
  VariableSpec kernel = config.tables[0].table_variables[0];
  kernel.dim = 0;
  kernel.shape = {4};
  config.tables[0].group = RowGroup::kAsync;
  config.tables.push_back({.name = "kernel",
                           .kind = TableKind::kDense,
                           .table_variables = {kernel},
                           .group = RowGroup::kSync});
  config.steps = StepRules{.replicas = 1};
  return config;
}

struct MixedHarness : PsHarness {
  MixedHarness() : PsHarness(mixed_config()) {
    wire::View view{.id = {1, 1}};
    view.owners.push_back({.incarnation = Incarnation{1}, .endpoint = "inproc://ps"});
    for (uint32_t p = 0; p < 4; ++p) view.partitions.push_back({0, {1, 1}});
    step(kChiefPeer, view);
    for (const uint32_t p : {0U, 1U}) sync.insert(PartitionId{p});
    for (const uint32_t p : {2U, 3U}) async.insert(PartitionId{p});
  }
  wire::PushReply push(TableId table, const wire::PartitionSet& covered, uint32_t batch,
                       uint64_t at_step, float gradient) {
    wire::Push push{.worker = Incarnation{9},
                    .batch = {0, 0, batch},
                    .records = 2,
                    .covered = covered,
                    .sections = {{table, 1}}};
    push.step = at_step;
    const wire::Message reply = step(9, push, Bytes::of(std::vector<uint64_t>{0}),
                                     Bytes::of(std::vector<float>(4, gradient)));
    const auto* answer = std::get_if<wire::PushReply>(&reply.body);
    return answer == nullptr ? wire::PushReply{} : *answer;
  }
  wire::PushReply push_rows(uint32_t batch, uint64_t at_step, float gradient) {
    return push(TableId{0}, async, batch, at_step, gradient);
  }
  void push_kernel(uint32_t batch, uint64_t at_step, float gradient) {
    push(TableId{1}, sync, batch, at_step, gradient);
  }
  wire::Message commit(uint64_t number, uint32_t batch) {
    return step(kChiefPeer, wire::Commit{.step = number, .parts = {{0, {0, 0, batch}}}});
  }
  wire::Message pull(TableId table) {
    return step(9, wire::Pull{.worker = Incarnation{9}, .sections = {{table, 1}}},
                Bytes::of(std::vector<uint64_t>{0}));
  }
  float row() { return pull(TableId{0}).values.load<float>(0); }
  float kernel() { return pull(TableId{1}).values.load<float>(0); }
  wire::PartitionSet sync, async;
};

TEST_CASE("a part of sparse rows is applied when it arrives, that of the kernel with its step",
          "[ps][core]") {
  MixedHarness ps;
  CHECK(ps.push_rows(0, 1, 1.0F).applied == ps.async);
  CHECK(ps.row() == -1.0F);
  CHECK(ps.core.step_stage().empty());
  ps.push_kernel(0, 1, 1.0F);
  REQUIRE(ps.effects.sends.size() == 1);  // no answer to the worker yet
  CHECK(std::get<wire::Staged>(ps.effects.sends[0].message.body) ==
        wire::Staged{1, {{0, {0, 0, 0}}}});
  CHECK(ps.kernel() == 0.0F);
  CHECK(std::get<wire::Committed>(ps.commit(1, 0).body).step == 1);
  CHECK(std::get<wire::PushReply>(ps.effects.sends[0].message.body).applied == ps.sync);
  CHECK(ps.kernel() == -1.0F);
  CHECK(ps.row() == -1.0F);
  CHECK(ps.push_rows(1, 2, 1.0F).applied == ps.async);  // the step has not counted there
  CHECK(ps.row() == -2.0F);
}

TEST_CASE("a batch that is computed again counts once in both halves", "[ps][core]") {
  MixedHarness ps;
  ps.push_rows(0, 1, 1.0F);  // its worker dies before the kernel's part
  const wire::PushReply again = ps.push_rows(0, 1, 5.0F);
  REQUIRE(again.others.size() == 2);
  for (const wire::PartReply& part : again.others) {
    CHECK(part.status == wire::PartStatus::kAlreadyApplied);
    CHECK(part.watermark == 1);
  }
  ps.push_kernel(0, 1, 5.0F);
  ps.commit(1, 0);
  CHECK(ps.row() == -1.0F);
  CHECK(ps.kernel() == -5.0F);
}

TEST_CASE("sparse rows take a part of any step, and in the order of the batches", "[ps][core]") {
  MixedHarness ps;
  CHECK(ps.push_rows(0, 7, 1.0F).applied == ps.async);
  CHECK(ps.push_rows(2, 1, 1.0F).others.at(0).status == wire::PartStatus::kGap);
  CHECK(ps.push_rows(1, 1, 1.0F).applied == ps.async);
  CHECK(ps.row() == -2.0F);
}

TEST_CASE("a pull shows the step of the partitions that apply steps", "[ps][core]") {
  MixedHarness ps;
  ps.push_rows(0, 1, 1.0F);
  CHECK(std::get<wire::PullReply>(ps.pull(TableId{1}).body).versions ==
        std::vector<uint64_t>{0, 0});
  ps.push_kernel(0, 1, 1.0F);
  ps.commit(1, 0);
  ps.push_rows(1, 2, 1.0F);
  CHECK(std::get<wire::PullReply>(ps.pull(TableId{0}).body).versions ==
        std::vector<uint64_t>{1, 1});
}

TEST_CASE("a checkpoint of a step holds what sparse rows have applied beyond it", "[ps][core]") {
  MixedHarness ps;
  ps.push_rows(0, 1, 1.0F);
  ps.step(kChiefPeer, wire::Save{.checkpoint = {1, 5}, .folder = "checkpoint", .step = 2});
  REQUIRE(ps.effects.sends.size() == 1);
  CHECK_FALSE(std::get<wire::Saved>(ps.effects.sends[0].message.body).ok);
  ps.step(kChiefPeer, wire::Save{.checkpoint = {1, 5}, .folder = "checkpoint", .step = 1});
  CHECK(ps.effects.sends.empty());
  ps.core.continue_save(ps.effects);
  REQUIRE(ps.effects.stores.size() == 4);
  for (const Store& store : ps.effects.stores) {
    const bool async = ps.async.contains(store.image.partition);
    CHECK(store.image.version == (async ? 1 : 0));
    CHECK(store.image.shards.size() == (async ? 1 : 0));
  }
}

TEST_CASE("a push over partitions of both halves is rejected, a shard-end marker is not",
          "[ps][core]") {
  MixedHarness ps;
  ps.push(TableId{0}, ps.all, 0, 1, 1.0F);
  REQUIRE(ps.effects.sends.size() == 1);
  CHECK(std::get<wire::Reject>(ps.effects.sends[0].message.body).code == ErrorCode::kMalformed);
  CHECK(ps.row() == 0.0F);
  CHECK(std::get<wire::PushReply>(ps.step(9, ps.end({0, 0, 0})).body).applied == ps.all);
}

TEST_CASE("a core without partitions that apply steps answers a Commit", "[ps][core]") {
  PsCore core(mixed_config());
  Effects effects;
  core.on_message(0, kChiefPeer,
                  {.envelope = {.run = 7, .view = {1, 1}, .request = RequestId{1}},
                   .body = wire::Adopt{.ownership_generation = {1, 1},
                                       .partitions = {PartitionId{2}, PartitionId{3}}}},
                  effects);
  effects.clear();
  core.on_message(0, kChiefPeer,
                  {.envelope = {.run = 7, .view = {1, 1}, .request = RequestId{2}},
                   .body = wire::Commit{.step = 4, .parts = {{0, {0, 0, 3}}}}},
                  effects);
  REQUIRE(effects.sends.size() == 1);
  CHECK(std::get<wire::Committed>(effects.sends[0].message.body).step == 4);
}

}  // namespace
}  // namespace downpour::ps
