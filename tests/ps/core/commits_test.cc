// Synchronous steps at a ps core: what is staged, what a Commit applies, and what it ignores.
#include <cmath>

#include "shared/base/hash.h"
#include "tests/ps/core/sync_harness.h"

namespace downpour::ps {
namespace {

TEST_CASE("a step applies the sum of all replicas once, and then answers their pushes",
          "[ps][core]") {
  SyncHarness ps(sync_config(2));
  const wire::Message staged = ps.stage(0, 0, 1, {3, 4}, 1.0F);
  CHECK(std::get<wire::Staged>(staged.body) == wire::Staged{1, {kPartA}});
  CHECK(ps.push_replies().empty());
  CHECK(ps.weight(3) == 0.0F);
  ps.stage(1, 0, 1, {4, 5}, 10.0F);
  CHECK(std::get<wire::Committed>(ps.commit(1, {kPartA, kPartB}).body).step == 1);
  REQUIRE(ps.push_replies().size() == 2);
  for (const wire::PushReply& reply : ps.push_replies()) CHECK(reply.applied == ps.all);
  CHECK(ps.weight(3) == -1.0F);
  CHECK(ps.weight(4) == -11.0F);
  CHECK(ps.weight(5) == -10.0F);
  CHECK(ps.core.partitions().version(PartitionId{0}) == 1);
  CHECK(ps.core.step_stage().empty());
}

TEST_CASE("with the mean, the sum is divided once by the weight of all records", "[ps][core]") {
  SyncHarness ps(sync_config(2, StepDivisor::kWeight));
  ps.stage(0, 0, 1, {3}, 6.0F);
  ps.stage(1, 0, 1, {3}, 10.0F);
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == -4.0F);  // 16 of 4 records
}

TEST_CASE("the elements of a step's gradient are limited after the division", "[ps][core]") {
  PsConfig config = sync_config(2, StepDivisor::kWeight);
  config.steps->clip_value = 5.0F;
  SyncHarness ps(config);
  ps.stage(0, 0, 1, {3, 4}, 24.0F);
  ps.stage(1, 0, 1, {4}, -18.0F);
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == -5.0F);  // 24 of 4 records
  CHECK(ps.weight(4) == -1.5F);
  ps.stage(0, 1, 2, {3}, -24.0F);
  ps.commit(2, {{0, {0, 0, 1}}});
  CHECK(ps.weight(3) == 0.0F);  // -24 of 2 records
}

std::vector<double> doubles_of(const Bytes& values) {
  std::vector<double> out;
  for (size_t i = 0; i < values.count<double>(); ++i) out.push_back(values.load<double>(i));
  return out;
}

TEST_CASE("the norms of a step are measured after the division, and its factor is applied",
          "[ps][core]") {
  PsConfig config = sync_config(2, StepDivisor::kWeight);
  config.steps->clip_groups = ClipGroups::kAll;
  SyncHarness ps(config);
  ps.stage(0, 0, 1, {3, 4}, 8.0F);
  ps.stage(1, 0, 1, {4}, -16.0F);
  const wire::Commit measure{.step = 1, .parts = {kPartA, kPartB}, .measure = true, .factors = {}};
  std::vector<double> squares(4);
  squares[raw(partition_of(row_hash(TableId{0}, 3), 2))] += 4 * 2.0 * 2.0;  // 8 of 4 records
  squares[raw(partition_of(row_hash(TableId{0}, 4), 2))] += 4 * 2.0 * 2.0;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const wire::Message answer = ps.step(kChiefPeer, measure);
    const auto& measured = std::get<wire::Committed>(answer.body);
    CHECK(measured.measured);
    CHECK(measured.step == 1);
    CHECK(measured.partitions.size() == 4);
    CHECK(doubles_of(answer.values) == squares);
  }
  CHECK(ps.weight(3) == 0.0F);
  CHECK(ps.push_replies().empty());
  wire::Commit commit{.step = 1, .parts = {kPartA, kPartB}, .measure = false, .factors = {0.5F}};
  CHECK_FALSE(std::get<wire::Committed>(ps.step(kChiefPeer, commit).body).measured);
  CHECK(ps.weight(3) == -1.0F);
  CHECK(ps.weight(4) == 1.0F);
  ps.step(kChiefPeer, measure);  // a late copy
  CHECK(ps.effects.sends.empty());
  commit.factors = {0.25F};
  ps.step(kChiefPeer, commit);
  CHECK(ps.core.heartbeat().failure.what.find("with different batches") != std::string::npos);
}

TEST_CASE("the norms of each variable do not depend on the order in which its keys arrive",
          "[ps][core]") {
  PsConfig config = sync_config(2);
  config.steps->clip_groups = ClipGroups::kVariables;
  TableSpec& first = config.tables[0];
  first.table_variables.push_back(first.table_variables[0]);
  first.table_variables[1].dim = 1;
  config.tables.push_back(
      {.name = "d",
       .kind = TableKind::kDense,
       .table_variables = {
           {.name = "w", .shape = {5000}, .optimizer = first.table_variables[0].optimizer}}});
  const auto measured = [&](bool reversed, SyncHarness& ps) {
    std::vector<uint64_t> keys;
    std::vector<float> rows;
    for (uint64_t k = 0; k < 50; ++k) keys.push_back(7 * (reversed ? 49 - k : k) + 1);
    for (const uint32_t dim : {4U, 1U})
      for (const uint64_t key : keys)
        for (uint32_t f = 0; f < dim; ++f) rows.push_back(0.1F * float(key + f) + float(dim));
    for (const uint64_t block : {0U, 1U}) keys.push_back(block);
    for (uint32_t f = 0; f < 5000; ++f) rows.push_back(0.3F + float(f % 7));
    wire::Push push = ps.part(0, 0, 1, 50);
    push.sections.push_back({TableId{1}, 2});
    ps.step(9, push, keys_of(keys), Bytes::of(rows));
    return doubles_of(
        ps.step(kChiefPeer,
                wire::Commit{.step = 1, .parts = {kPartA}, .measure = true, .factors = {}})
            .values);
  };
  SyncHarness ps(config), other(config);
  const std::vector<double> squares = measured(false, ps);
  REQUIRE(squares.size() == 4 * 3);
  CHECK(measured(true, other) == squares);
  double first_squares = 0, expected = 0;
  for (size_t p = 0; p < 4; ++p) first_squares += squares[3 * p + 1];
  for (uint64_t k = 0; k < 50; ++k) {
    const double g = double(0.1F * float(7 * k + 1) + 1.0F);
    expected += g * g;
  }
  CHECK(std::abs(first_squares - expected) < 1e-9 * expected);
  ps.step(kChiefPeer, wire::Commit{.step = 1, .parts = {kPartA}, .factors = {1.0F, 0.5F, 1.0F}});
  const wire::Message pulled =
      ps.step(9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, 1}}}, keys_of({8}));
  CHECK(pulled.values.load<float>(0) == -(0.1F * 8.0F + 4.0F));
  CHECK(pulled.values.load<float>(4) == -0.5F * (0.1F * 8.0F + 1.0F));
}

TEST_CASE("a mean of changes is weighted by records, also where one replica has touched a row",
          "[ps][core]") {
  SyncHarness ps(sync_config(2, StepDivisor::kRecords));
  wire::Push small = ps.part(0, 0, 1, 2), large = ps.part(1, 0, 1, 1);
  small.metrics = large.metrics = {OutputSums{.weight = 100}};  // the sample weights do not count
  large.records = 6;
  ps.step(9, small, keys_of({3, 4}), rows_of(2, 2 * 1.0F));  // 2 records, a change of 1
  ps.step(10, large, keys_of({3}), rows_of(1, 6 * 5.0F));    // 6 records, a change of 5
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == -4.0F);
  CHECK(ps.weight(4) == -0.25F);
}

TEST_CASE("the mean of a row's changes counts only the replicas that have touched the row",
          "[ps][core]") {
  SyncHarness ps(sync_config(2, StepDivisor::kRecordsOfRow));
  wire::Push small = ps.part(0, 0, 1, 2), large = ps.part(1, 0, 1, 2);
  large.records = 6;
  ps.step(9, small, keys_of({3, 4}), rows_of(2, 2 * 1.0F));   // 2 records, a change of 1
  ps.step(10, large, keys_of({7, 3}), rows_of(2, 6 * 5.0F));  // 6 records, a change of 5
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == -4.0F);
  CHECK(ps.weight(4) == -1.0F);
  CHECK(ps.weight(7) == -5.0F);
  // The next step begins without divisors, and a part without records has none.
  small.batch.batch = large.batch.batch = 1;
  small.step = large.step = 2;
  small.records = 0;
  ps.step(9, small, keys_of({3, 8}), rows_of(2, 0.0F));
  ps.step(10, large, keys_of({7, 4}), rows_of(2, 6 * 1.0F));
  ps.commit(2, {{0, {0, 0, 1}}, {1, {0, 1, 1}}});
  CHECK(ps.weight(3) == -4.0F);
  CHECK(ps.weight(4) == -2.0F);
  CHECK(ps.weight(8) == 0.0F);
}

TEST_CASE("a Commit that cannot be applied changes nothing, and a repeated one is answered",
          "[ps][core]") {
  SyncHarness ps(sync_config(2));
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.commit(1, {kPartA, kPartB});  // the second replica has staged nothing
  CHECK(ps.effects.sends.empty());
  ps.commit(2, {kPartA});  // a later step
  CHECK(ps.effects.sends.empty());
  ps.commit(1, {{0, {0, 0, 1}}});  // another batch
  CHECK(ps.effects.sends.empty());
  CHECK(ps.weight(3) == 0.0F);
  ps.commit(1, {kPartA});
  CHECK(std::holds_alternative<wire::Committed>(ps.commit(1, {kPartA}).body));
  CHECK(ps.weight(3) == -1.0F);
  ps.commit(1, {kPartB});  // the same step with other batches
  CHECK(ps.core.heartbeat().failure.what.find("with different batches") != std::string::npos);
}

TEST_CASE("a part for another step is refused, and a repeated one counts once", "[ps][core]") {
  SyncHarness ps(sync_config(2));
  const auto refused = std::get<wire::PushReply>(ps.stage(0, 0, 2, {3}, 1.0F).body);
  REQUIRE(refused.others.size() == 4);
  CHECK(refused.others[0].status == wire::PartStatus::kOtherStep);
  CHECK(ps.core.step_stage().empty());
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.stage(0, 0, 1, {3}, 1.0F);  // the worker repeats it
  CHECK(ps.push_replies().empty());
  ps.commit(1, {kPartA});
  CHECK(ps.push_replies().size() == 1);
  CHECK(ps.weight(3) == -1.0F);
  const auto late = std::get<wire::PushReply>(ps.stage(0, 0, 1, {3}, 1.0F).body);
  CHECK(late.others[0].status == wire::PartStatus::kAlreadyApplied);
}

TEST_CASE("a batch of an earlier shard replaces one of a later shard", "[ps][core]") {
  SyncHarness ps(sync_config(1));
  wire::Push later = ps.part(0, 0, 1, 1);
  later.batch.shard = 5;
  ps.step(9, later, keys_of({3}), rows_of(1, 1.0F));
  ps.stage(0, 0, 1, {3}, 10.0F);
  REQUIRE(ps.push_replies().size() == 1);  // so that the worker holds it until its turn
  CHECK(ps.push_replies()[0].batch == later.batch);
  CHECK(ps.push_replies()[0].others[0].status == wire::PartStatus::kOtherStep);
  const auto refused =
      std::get<wire::PushReply>(ps.step(9, later, keys_of({3}), rows_of(1, 1.0F)).body);
  CHECK(refused.others[0].status == wire::PartStatus::kOtherStep);
  ps.commit(1, {kPartA});
  CHECK(ps.weight(3) == -10.0F);
}

TEST_CASE("a part waits for all partitions, in any number of pushes", "[ps][core]") {
  SyncHarness ps(sync_config(1));
  wire::Push half = ps.part(0, 0, 1, 0);
  half.sections.clear();
  half.covered = {};
  half.covered.insert(PartitionId{0});
  half.covered.insert(PartitionId{1});
  ps.step(9, half);
  CHECK(ps.effects.sends.empty());
  ps.commit(1, {kPartA});
  CHECK(ps.effects.sends.empty());
  wire::Push whole = half;  // regrouped: it covers what is staged, and the rest
  whole.covered = ps.all;
  ps.step(9, whole);
  ps.commit(1, {kPartA});
  CHECK(ps.core.partitions().version(PartitionId{3}) == 1);
}

TEST_CASE("a Save for another step fails", "[ps][core]") {
  SyncHarness ps(sync_config(1));
  const auto saved = std::get<wire::Saved>(
      ps.step(kChiefPeer, wire::Save{.checkpoint = {1, 2}, .folder = "f", .step = 2}).body);
  CHECK_FALSE(saved.ok);
  ps.step(kChiefPeer, wire::Save{.checkpoint = {1, 3}, .folder = "f", .step = 1});
  CHECK(ps.core.saves());
}

/// A ps that begins a checkpoint of step 1 before it gets the commit of that step.
struct SavingHarness : SyncHarness {
  SavingHarness() : SyncHarness(sync_config(1)) {
    stage(0, 0, 1, {3}, 1.0F);
    step(kChiefPeer, wire::Save{.checkpoint = {1, 2}, .folder = "f", .step = 1});
    commit(1, {kPartA});
  }
};

TEST_CASE("a step waits until the partitions are copied for a checkpoint", "[ps][core]") {
  SavingHarness ps;
  CHECK(ps.effects.sends.empty());
  while (ps.core.saves()) {
    ps.effects.clear();
    ps.core.continue_save(ps.effects);
    for (const Store& store : ps.effects.stores) CHECK(store.image.version == 0);
  }
  CHECK(ps.push_replies().size() == 1);
  CHECK(ps.core.partitions().version(PartitionId{0}) == 1);
}

TEST_CASE("a step is applied when the write of a checkpoint fails before all is copied",
          "[ps][core]") {
  SavingHarness ps;
  ps.effects.clear();
  ps.core.on_stored({1, 2}, Error{ErrorCode::kIo, "no space"}, ps.effects);
  CHECK(ps.push_replies().size() == 1);
  CHECK(ps.core.partitions().version(PartitionId{0}) == 1);
}

TEST_CASE("a new quarantine marker drops the staged batch, and the batch counts without it",
          "[ps][core]") {
  SyncHarness ps(sync_config(1));
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.step(kChiefPeer, wire::StatusRequest{.round = 1, .shards = 1, .markers = {{{0, 0, 0}}}});
  CHECK(ps.core.step_stage().empty());
  // The chief learns first that the batch is not staged any more.
  REQUIRE(ps.effects.sends.size() == 2);
  CHECK(std::get<wire::Staged>(ps.effects.sends[0].message.body).parts.empty());
  wire::Push without{.worker = Incarnation{9}, .batch = {0, 0, 0}, .covered = ps.all};
  without.quarantined = true;
  without.batches_quarantined = 1;
  ps.step(9, without);
  ps.commit(1, {kPartA});
  CHECK(ps.push_replies().size() == 1);
  CHECK(ps.weight(3) == 0.0F);
}

TEST_CASE("a step that was measured is added up anew after a new quarantine marker", "[ps][core]") {
  PsConfig config = sync_config(2);
  config.steps->clip_groups = ClipGroups::kAll;
  SyncHarness ps(config);
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.stage(1, 0, 1, {4}, 10.0F);
  const wire::Commit measure{.step = 1, .parts = {kPartA, kPartB}, .measure = true, .factors = {}};
  ps.step(kChiefPeer, measure);
  ps.step(kChiefPeer, wire::StatusRequest{.round = 1, .shards = 1, .markers = {{{0, 0, 0}}}});
  wire::Push without{.worker = Incarnation{9}, .batch = {0, 0, 0}, .covered = ps.all};
  without.quarantined = true;
  without.batches_quarantined = 1;
  ps.step(9, without);
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.effects.sends.empty());  // the sum begins anew
  ps.stage(1, 0, 1, {4}, 10.0F);
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == 0.0F);
  CHECK(ps.weight(4) == -10.0F);
}

TEST_CASE("what is staged is dropped when the partitions of the core change", "[ps][core]") {
  SyncHarness ps(sync_config(1));
  ps.stage(0, 0, 1, {3}, 1.0F);
  wire::View moved{.id = {1, 2}};
  moved.owners.push_back({.incarnation = Incarnation{1}, .endpoint = "inproc://ps"});
  moved.owners.push_back({.index = 1, .incarnation = Incarnation{2}, .endpoint = "inproc://ps2"});
  for (uint32_t p = 0; p < 4; ++p) moved.partitions.push_back({p / 2, {1, p < 2 ? 1U : 2U}});
  ps.step(kChiefPeer, moved);
  CHECK(ps.core.step_stage().empty());
}

TEST_CASE("what is staged stays when a load ends that nothing needs any more", "[ps][core]") {
  SyncHarness ps(sync_config(1));
  const auto show_half = [&](uint32_t n) {
    wire::View view{.id = {1, n}};
    view.owners.push_back({.incarnation = Incarnation{1}, .endpoint = "inproc://ps"});
    view.owners.push_back({.index = 1, .incarnation = Incarnation{2}, .endpoint = "inproc://ps2"});
    for (uint32_t p = 0; p < 4; ++p) view.partitions.push_back({p / 2, {1, p < 2 ? 1U : 2U}});
    ps.step(kChiefPeer, view);
  };
  show_half(2);
  ps.step(kChiefPeer, wire::Adopt{.ownership_generation = {1, 3},
                                  .partitions = {PartitionId{2}},
                                  .folder = "f",
                                  .images = {{.partition = PartitionId{2}, .file = "i"}}});
  REQUIRE(ps.effects.loads.size() == 1);
  const uint64_t load = ps.effects.loads[0].id;
  show_half(3);  // the other ps keeps the partition
  wire::Push push = ps.part(0, 0, 1, 0);
  push.sections.clear();
  push.covered = {};
  for (const uint32_t p : {0U, 1U}) push.covered.insert(PartitionId{p});
  ps.step(9, push);
  REQUIRE_FALSE(ps.core.step_stage().empty());
  ps.core.on_loaded(load, std::vector<checkpoint::PartitionImage>(1), ps.effects);
  CHECK_FALSE(ps.core.step_stage().empty());
}

TEST_CASE("a restarted chief may change the mode", "[ps][core]") {
  SyncHarness ps(small_config());
  ps.core.set_plan({}, StepRules{.replicas = 2});
  ps.stage(0, 0, 1, {3}, 1.0F);
  CHECK(ps.weight(3) == 0.0F);
  ps.commit(1, {kPartA});
  CHECK(ps.weight(3) == -1.0F);
  ps.core.set_plan({}, {});
  ps.stage(0, 1, 0, {3}, 1.0F);
  CHECK(ps.weight(3) == -2.0F);
}

TEST_CASE("a push of an unknown or wrong replica, or without a step, is rejected", "[ps][core]") {
  SyncHarness ps(sync_config(2));
  wire::Push push = ps.part(0, 0, 1, 1);
  push.replica = 2;
  CHECK(
      std::holds_alternative<wire::Reject>(ps.step(9, push, keys_of({3}), rows_of(1, 1.0F)).body));
  push.replica = 1;  // shard 0 belongs to replica 0
  CHECK(
      std::holds_alternative<wire::Reject>(ps.step(9, push, keys_of({3}), rows_of(1, 1.0F)).body));
  CHECK(std::holds_alternative<wire::Reject>(ps.stage(0, 0, 0, {3}, 1.0F).body));
}

// Keys that collide under the public hash are made from its inverse. Without the salt, this step
// takes some 10^10 comparisons.
TEST_CASE("keys that were made to collide do not slow down a step", "[ps][core]") {
  constexpr uint32_t kReplicas = 8, kKeys = 16'000;  // per replica
  SyncHarness ps(sync_config(kReplicas));
  wire::Commit commit{.step = 1, .parts = {}};
  for (uint32_t replica = 0; replica < kReplicas; ++replica) {
    std::vector<uint64_t> keys(kKeys);
    for (uint64_t i = 0; i < kKeys; ++i) keys[i] = unmix64((replica * kKeys + i) << 20);
    ps.stage(replica, 0, 1, keys, 1.0F);
    commit.parts.push_back({replica, {0, replica, 0}});
  }
  CHECK(std::get<wire::Committed>(ps.step(kChiefPeer, commit).body).step == 1);
  CHECK(ps.weight(unmix64(0)) == -1.0F);
}

TEST_CASE("a step counts once for a schedule, and has the reductions of its leases", "[ps][core]") {
  PsConfig config = sync_config(2);
  config.tables[0].table_variables[0].optimizer.schedule = {
      .type = ScheduleType::kPlateau, .warmup_steps = 2, .factor = 0.5F, .min = 0.1F};
  SyncHarness ps(config);
  const auto stage = [&](uint32_t replica, uint32_t batch, uint32_t reductions) {
    wire::Push push = ps.part(replica, batch, batch + 1, 1);
    push.rate_reductions = reductions;
    ps.step(9 + replica, push, keys_of({3}), rows_of(1, 1.0F));
  };
  stage(0, 0, 0);
  stage(1, 0, 0);
  ps.commit(1, {kPartA, kPartB});
  CHECK(ps.weight(3) == -1.0F);  // the first of two steps of warm-up, with the sum 2
  stage(0, 1, 1);
  stage(1, 1, 1);
  ps.commit(2, {{0, {0, 0, 1}}, {1, {0, 1, 1}}});
  CHECK(ps.weight(3) == -2.0F);  // the full rate, reduced once
}

// ---- with backups

PsConfig backups_config(uint32_t replicas, uint32_t backups) {
  PsConfig config = sync_config(replicas);
  config.steps->backups = backups;
  config.steps->in_turn = false;
  return config;
}

TEST_CASE("a batch that a step leaves out is refused, and counts once in a later step",
          "[ps][core]") {
  SyncHarness ps(backups_config(3, 1));
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.stage(1, 0, 1, {3}, 10.0F);
  ps.stage(2, 0, 1, {3}, 100.0F);
  ps.commit(1, {kPartA, kPartB});
  REQUIRE(ps.push_replies().size() == 3);
  const wire::PushReply left_out = ps.push_replies()[2];
  CHECK(left_out.batch == BatchId{0, 2, 0});
  CHECK(left_out.applied.words.empty());
  REQUIRE(left_out.others.size() == 4);
  for (const wire::PartReply& part : left_out.others)
    CHECK(part.status == wire::PartStatus::kOtherStep);
  CHECK(ps.weight(3) == -11.0F);
  CHECK(ps.core.step_stage().empty());
  CHECK(ps.core.partitions().watermarks().watermark({0, 2}, PartitionId{1}) == 0);

  // Another copy of the push, of the same step, comes late.
  const auto late = std::get<wire::PushReply>(ps.stage(2, 0, 1, {3}, 100.0F).body);
  CHECK(late.others[0].status == wire::PartStatus::kOtherStep);
  CHECK(ps.core.step_stage().empty());
  ps.stage(2, 0, 2, {3}, 200.0F);
  ps.stage(0, 1, 2, {3}, 1.0F);
  ps.commit(2, {{0, {0, 0, 1}}, {2, {0, 2, 0}}});
  CHECK(ps.weight(3) == -212.0F);
  CHECK(ps.core.partitions().watermarks().watermark({0, 2}, PartitionId{1}) == 1);
}

TEST_CASE("a part of a batch that a step leaves out is refused, too", "[ps][core]") {
  SyncHarness ps(backups_config(2, 1));
  wire::Push half = ps.part(1, 0, 1, 0);
  half.sections.clear();
  half.covered = {};
  half.covered.insert(PartitionId{0});
  ps.step(9, half);
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.commit(1, {kPartA});
  const std::vector<wire::PushReply> replies = ps.push_replies();
  REQUIRE(replies.size() == 2);
  REQUIRE(replies[1].others.size() == 1);
  CHECK(replies[1].others[0] == wire::PartReply{PartitionId{0}, wire::PartStatus::kOtherStep, 0});
}

TEST_CASE("with backups a batch is staged once, whichever replica its workers name", "[ps][core]") {
  SyncHarness ps(backups_config(3, 1));
  wire::Push moved = ps.part(0, 0, 1, 1);
  moved.replica = 2;  // the shard has passed to another replica
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.step(30, moved, keys_of({3}), rows_of(1, 1.0F));
  ps.commit(1, {kPartA});
  CHECK(ps.push_replies().size() == 2);
  CHECK(ps.weight(3) == -1.0F);
  CHECK(ps.core.partitions().watermarks().watermark({0, 0}, PartitionId{0}) == 1);
}

TEST_CASE("with backups a core reports fewer batches than the last step had", "[ps][core]") {
  SyncHarness ps(backups_config(3, 1));
  for (const uint32_t replica : {0U, 1U, 2U}) ps.stage(replica, 0, 1, {3}, 1.0F);
  ps.commit(1, {kPartA, kPartB, {2, {0, 2, 0}}});
  ps.stage(0, 1, 2, {3}, 1.0F);
  CHECK(ps.effects.sends.empty());
  const wire::Message report = ps.stage(1, 1, 2, {3}, 1.0F);
  CHECK(std::get<wire::Staged>(report.body).parts.size() == 2);
}

TEST_CASE("a Commit from before a rollback may name other batches of a step", "[ps][core]") {
  SyncHarness ps(backups_config(2, 1));
  ps.stage(0, 0, 1, {3}, 1.0F);
  ps.commit(1, {kPartA});
  const wire::Message late{.envelope = {.run = 7, .view = {1, 0}, .request = RequestId{99}},
                           .body = wire::Commit{.step = 1, .parts = {kPartB}}};
  ps.effects.clear();
  ps.core.on_message(0, kChiefPeer, late, ps.effects, {});
  CHECK(ps.effects.sends.empty());
  CHECK(ps.core.heartbeat().failure.what.empty());
}

TEST_CASE("fragments of different steps are not joined", "[ps][core]") {
  SyncHarness ps(backups_config(2, 1));
  wire::Push old = ps.part(1, 0, 1, 1);
  old.fragments = 2;
  ps.step(10, old, keys_of({3}), rows_of(1, 1.0F));
  ps.stage(0, 0, 1, {3}, 10.0F);
  ps.commit(1, {kPartA});
  wire::Push fresh = ps.part(1, 0, 2, 1);
  fresh.fragments = 2;
  fresh.fragment = 1;
  ps.step(10, fresh, keys_of({4}), rows_of(1, 100.0F));
  ps.commit(2, {kPartB});
  CHECK(ps.effects.sends.empty());  // the first fragment of step 1 is gone
  fresh.fragment = 0;
  ps.step(10, fresh, keys_of({3}), rows_of(1, 100.0F));
  ps.commit(2, {kPartB});
  CHECK(ps.weight(3) == -110.0F);
  CHECK(ps.weight(4) == -100.0F);
}

}  // namespace
}  // namespace downpour::ps
