// Schedules at a ps core: the learning rate follows the number of applied batches, also after a
// duplicate part and after a restore.
#include <algorithm>
#include <cmath>
#include <vector>

#include "shared/optim/optimizer.h"
#include "tests/ps/core/ps_harness.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kTrained = 12;

PsConfig config_with(const OptimizerSpec& optimizer) {
  PsConfig config = small_config();
  config.tables[0].table_variables[0].optimizer = optimizer;
  // A dense variable with another path to its optimizer.
  VariableSpec dense{.name = "d", .shape = {4}, .optimizer = optimizer};
  config.tables.push_back({.name = "d", .kind = TableKind::kDense, .table_variables = {dense}});
  return config;
}

OptimizerSpec scheduled(OptimizerType type, const ScheduleSpec& schedule) {
  OptimizerSpec optimizer = optimizer_defaults(type);
  optimizer.schedule = schedule;
  return optimizer;
}

/// Pushes gradients for row 3 and for the dense block.
void push_batch(PsHarness& ps, uint32_t batch, uint32_t reductions = 0) {
  wire::Push push = ps.push({0, 0, batch});
  push.sections = {{TableId{0}, 1}, {TableId{1}, 1}};
  push.rate_reductions = reductions;
  std::vector<float> gradients(8);
  for (uint32_t i = 0; i < 8; ++i) gradients[i] = float((batch * 7 + i * 3) % 11) / 8.0F - 0.5F;
  const std::vector<uint64_t> keys{3, 0};
  ps.step(9, push, Bytes::of(std::vector<uint64_t>(keys)), Bytes::of(std::move(gradients)));
}

/// Returns the weights of row 3 and of the dense block.
std::vector<float> weights_of(PsHarness& ps) {
  const wire::Message reply = ps.step(
      9, wire::Pull{.worker = Incarnation{9}, .sections = {{TableId{0}, 1}, {TableId{1}, 1}}},
      Bytes::of(std::vector<uint64_t>{3, 0}));
  REQUIRE(reply.values.size() == 8 * sizeof(float));
  std::vector<float> weights(8);
  for (uint32_t i = 0; i < 8; ++i) weights[i] = reply.values.load<float>(i);
  return weights;
}

/// Returns the weights that the kernels of shared/optim compute for the batches of push_batch().
std::vector<float> expected(const OptimizerSpec& optimizer, uint32_t batches) {
  std::vector<float> row(optim::stored_floats(optimizer, 4)), block = row;
  optim::start_slots(optimizer, 4, row.data());
  optim::start_slots(optimizer, 4, block.data());
  const optim::UpdateRows update = optim::update_kernel(optimizer, 4);
  for (uint32_t batch = 0; batch < batches; ++batch) {
    std::vector<float> gradients(8);
    for (uint32_t i = 0; i < 8; ++i) gradients[i] = float((batch * 7 + i * 3) % 11) / 8.0F - 0.5F;
    const optim::StepRate rate = optim::step_rate(optimizer, batch + 1);
    const optim::RowUpdate one;
    update(optimizer, {row.data(), 0, 4}, {&one, 1}, &rate, gradients.data());
    update(optimizer, {block.data(), 0, 4}, {&one, 1}, &rate, gradients.data() + 4);
  }
  std::vector<float> weights(row.begin(), row.begin() + 4);
  weights.insert(weights.end(), block.begin(), block.begin() + 4);
  return weights;
}

TEST_CASE("a schedule reaches every optimizer, in embeddings and in dense variables",
          "[ps][core]") {
  for (const OptimizerInfo& info : kOptimizers) {
    INFO(info.name);
    const OptimizerSpec optimizer =
        scheduled(info.type, {.type = ScheduleType::kCosine, .warmup_steps = 3, .decay_steps = 6});
    PsHarness ps(config_with(optimizer));
    for (uint32_t batch = 0; batch < kTrained; ++batch) push_batch(ps, batch);
    CHECK(weights_of(ps) == expected(optimizer, kTrained));
    CHECK(weights_of(ps) != expected(info.defaults, kTrained));
  }
}

TEST_CASE("a duplicate part does not advance a schedule", "[ps][core]") {
  const OptimizerSpec optimizer =
      scheduled(OptimizerType::kSgd, {.type = ScheduleType::kStep, .decay_steps = 2});
  PsHarness ps(config_with(optimizer));
  for (uint32_t batch = 0; batch < kTrained; ++batch) {
    push_batch(ps, batch);
    push_batch(ps, batch);
    push_batch(ps, batch / 2);
  }
  CHECK(weights_of(ps) == expected(optimizer, kTrained));
}

TEST_CASE("a restored partition continues its schedule", "[ps][core]") {
  for (const OptimizerInfo& info : kOptimizers) {
    INFO(info.name);
    const OptimizerSpec optimizer = scheduled(
        info.type, {.type = ScheduleType::kPolynomial, .warmup_steps = 2, .decay_steps = 20});
    const PsConfig config = config_with(optimizer);
    PsHarness before(config);
    for (uint32_t batch = 0; batch < 7; ++batch) push_batch(before, batch);
    std::vector<checkpoint::PartitionImage> images;
    for (uint32_t p = 0; p < 4; ++p)
      images.push_back(before.core.partitions().export_image(PartitionId(p)));
    PsHarness after(config, std::move(images));
    for (uint32_t batch = 7; batch < kTrained; ++batch) push_batch(after, batch);
    CHECK(weights_of(after) == expected(optimizer, kTrained));
  }
}

TEST_CASE("a partition with inherited moments continues the bias correction, but not the schedule",
          "[ps][core]") {
  for (const OptimizerType type : {OptimizerType::kAdam, OptimizerType::kAdamW}) {
    INFO(name_of(type));
    const auto images_of = [](PsHarness& ps) {
      std::vector<checkpoint::PartitionImage> images;
      for (uint32_t p = 0; p < 4; ++p)
        images.push_back(ps.core.partitions().export_image(PartitionId(p)));
      return images;
    };
    const auto weights_after = [&](const OptimizerSpec& optimizer, uint64_t version,
                                   uint64_t steps_before) {
      PsHarness first(config_with(optimizer_defaults(type)));
      for (uint32_t batch = 0; batch < 7; ++batch) push_batch(first, batch);
      std::vector<checkpoint::PartitionImage> images = images_of(first);
      for (checkpoint::PartitionImage& image : images) {
        checkpoint::PartitionImage start{.partition = image.partition, .version = version};
        start.steps_before = steps_before;
        start.tables = std::move(image.tables);
        image = std::move(start);
      }
      PsHarness second(config_with(optimizer), std::move(images));
      for (uint32_t batch = 0; batch < 3; ++batch) push_batch(second, batch);
      // A restore in between keeps the number, and so does a move.
      PsHarness third(config_with(optimizer), images_of(second));
      for (uint32_t batch = 3; batch < 5; ++batch) push_batch(third, batch);
      CHECK(third.core.partitions().export_image(PartitionId{0}).steps_before == steps_before);
      return weights_of(third);
    };
    const OptimizerSpec plain = optimizer_defaults(type);
    CHECK(weights_after(plain, 0, 7) == weights_after(plain, 7, 0));
    CHECK(weights_after(plain, 0, 7) != weights_after(plain, 0, 0));
    const OptimizerSpec warm_up =
        scheduled(type, {.type = ScheduleType::kConstant, .warmup_steps = 20});
    CHECK(weights_after(warm_up, 0, 7) != weights_after(warm_up, 7, 0));
  }
}

TEST_CASE("a plateau has the number of reductions that each push states", "[ps][core]") {
  const OptimizerSpec optimizer = scheduled(
      OptimizerType::kSgd, {.type = ScheduleType::kPlateau, .factor = 0.5F, .min = 0.25F});
  std::vector<float> last(8, 0.0F);
  PsHarness ps(config_with(optimizer));
  for (uint32_t batch = 0; batch < 5; ++batch) {
    push_batch(ps, batch, /*reductions=*/batch);
    const std::vector<float> now = weights_of(ps);
    const double rate = 0.01 * std::max(0.25, std::pow(0.5, batch));
    for (uint32_t i = 0; i < 8; ++i) {
      const double gradient = double((batch * 7 + i * 3) % 11) / 8.0 - 0.5;
      CHECK(double(now[i] - last[i]) == Approx(-rate * gradient).margin(1e-7));
    }
    last = now;
  }
}

}  // namespace
}  // namespace downpour::ps
