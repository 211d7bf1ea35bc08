#include "shared/optim/optimizer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"

namespace downpour::optim {
namespace {

struct Golden {
  OptimizerSpec spec;
  // Weights, then slots, of three elements, after each step.
  std::vector<std::vector<double>> steps;
};
const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
#include "golden.inc"
  };
  return all;
}
/// The weights and the slot of one row after a step.
struct GoldenRow {
  uint32_t dim;
  uint32_t step;
  std::vector<double> stored;
};
struct GoldenRows {
  OptimizerSpec spec;
  std::vector<GoldenRow> rows;
};
const std::vector<GoldenRows>& golden_rows() {
  static const std::vector<GoldenRows> all = {
#include "golden_rows.inc"
  };
  return all;
}
/// The weights, their averages and the number of updates of one row.
const std::vector<GoldenRows>& golden_averages() {
  static const std::vector<GoldenRows> all = {
#include "golden_averages.inc"
  };
  return all;
}
std::vector<OptimizerSpec> golden_specs() {
  std::vector<OptimizerSpec> specs;
  for (const Golden& golden : goldens()) specs.push_back(golden.spec);
  for (const GoldenRows& golden : golden_rows()) specs.push_back(golden.spec);
  for (const GoldenRows& golden : golden_averages()) specs.push_back(golden.spec);
  return specs;
}
constexpr float kStart[] = {0.5F, -0.25F, 0.0F};
constexpr float kGradients[][3] = {{0.3F, -0.7F, 0.05F},
                                   {-0.2F, 0.4F, 0.0F},
                                   {1.5F, -0.01F, -0.3F},
                                   {0.0F, 0.6F, 2.0F},
                                   {-0.9F, 0.1F, 0.25F}};

/// Returns rows of width `dim` whose weights repeat kStart and whose slots have their initial
/// values.
std::vector<float> start_rows(const OptimizerSpec& spec, uint32_t dim, uint32_t rows,
                              size_t stride) {
  std::vector<float> memory(rows * stride, -99.0F);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t i = 0; i < dim; ++i) memory[r * stride + i] = kStart[(r + i) % 3];
    start_slots(spec, dim, memory.data() + r * stride);
  }
  return memory;
}

}  // namespace

TEST_CASE("every optimizer matches its paper's formula at every width", "[optim]") {
  for (const Golden& golden : goldens()) {
    for (const uint32_t dim : {1U, 3U, 16U, 37U}) {
      const OptimizerSpec& spec = golden.spec;
      const uint32_t slots = slots_of(spec);
      const uint32_t rows = 3;
      const size_t stride = stored_floats(spec, dim) + 5;
      std::vector<float> memory = start_rows(spec, dim, rows, stride);
      const UpdateRows update = update_kernel(spec, dim);
      for (size_t step = 0; step < golden.steps.size(); ++step) {
        // The gradients start at an odd address and have another order than the rows.
        std::vector<uint8_t> bytes(rows * dim * sizeof(float) + 1);
        for (uint32_t r = 0; r < rows; ++r) {
          for (uint32_t i = 0; i < dim; ++i) {
            const uint32_t at = (rows - 1 - r) * dim + i;
            std::memcpy(bytes.data() + 1 + at * sizeof(float), &kGradients[step][(r + i) % 3],
                        sizeof(float));
          }
        }
        const RowUpdate updates[] = {{0, 2}, {1, 1}, {2, 0}};
        const StepRate rate = step_rate(spec, step + 1);
        const StepRate rates[] = {rate, rate, rate};
        update(spec, {memory.data(), stride, dim}, std::span<const RowUpdate>(updates), rates,
               bytes.data() + 1);
        for (uint32_t r = 0; r < rows; ++r) {
          for (uint32_t part = 0; part <= slots; ++part) {
            for (uint32_t i = 0; i < dim; ++i) {
              const double want = golden.steps[step][part * 3 + (r + i) % 3];
              const float got = memory[r * stride + part * dim + i];
              // float32 against float64: a few roundings in each of 5 steps, for values up to 10.
              INFO("type " << int(spec.type) << " dim " << dim << " step " << step << " part "
                           << part);
              REQUIRE(double(got) == Approx(want).margin(4e-6).epsilon(4e-6));
            }
          }
          REQUIRE(memory[r * stride + stride - 1] == -99.0F);  // nothing is written past the row
        }
      }
    }
  }
}

TEST_CASE("an optimizer of rows matches its formula over 100 steps at every width", "[optim]") {
  for (const auto& [spec, goldens] : golden_rows()) {
    for (const GoldenRow& golden : goldens) {
      INFO(name_of(spec.type) << " dim " << golden.dim << " step " << golden.step);
      const uint32_t dim = golden.dim;
      REQUIRE(golden.stored.size() == stored_floats(spec, dim));
      std::vector<float> memory = start_rows(spec, dim, 1, stored_floats(spec, dim) + 1);
      std::vector<uint8_t> bytes(dim * sizeof(float) + 1);  // gradients at an odd address
      for (uint32_t step = 1; step <= golden.step; ++step) {
        for (uint32_t i = 0; i < dim; ++i) {
          const float g = float((step * 7 + i * 5 + step * i) % 23) / 16 - 0.6875F;
          std::memcpy(bytes.data() + 1 + i * sizeof(float), &g, sizeof g);
        }
        const RowUpdate update;
        update_kernel(spec, dim)(spec, {memory.data(), 0, dim}, {&update, 1}, nullptr,
                                 bytes.data() + 1);
      }
      // float32 against float64: the roundings of 100 additions
      for (size_t i = 0; i < golden.stored.size(); ++i)
        CHECK(double(memory[i]) == Approx(golden.stored[i]).margin(1e-5).epsilon(1e-5));
      CHECK(memory.back() == -99.0F);  // nothing is written past the row
    }
  }
}

TEST_CASE("averages of weights match their sums over 100 steps at every width", "[optim]") {
  for (const auto& [spec, goldens] : golden_averages()) {
    for (const GoldenRow& golden : goldens) {
      INFO(name_of(spec.type) << " ema " << spec.ema << " dim " << golden.dim << " step "
                              << golden.step);
      const uint32_t dim = golden.dim;
      const size_t stored = stored_floats(spec, dim);
      std::vector<float> memory = start_rows(spec, dim, 1, stored + 1);
      const uint32_t average_at = model_weights_at(spec, dim);
      CHECK(std::equal(memory.begin(), memory.begin() + dim, memory.begin() + average_at));
      for (uint32_t step = 1; step <= golden.step; ++step) {
        std::vector<float> g(dim);
        for (uint32_t i = 0; i < dim; ++i)
          g[i] = float((step * 7 + i * 5 + step * i) % 23) / 16 - 0.6875F;
        const RowUpdate update;
        const StepRate rate = rate_needs_step(spec) ? step_rate(spec, step) : StepRate{};
        update_kernel(spec, dim)(spec, {memory.data(), 0, dim}, {&update, 1}, &rate, g.data());
      }
      REQUIRE(golden.stored.size() == 2 * dim + 1);
      // float32 against float64: the roundings of 100 steps
      for (uint32_t i = 0; i < dim; ++i)
        CHECK(double(memory[i]) == Approx(golden.stored[i]).margin(5e-6));
      for (uint32_t i = 0; i <= dim; ++i)
        CHECK(double(memory[average_at + i]) == Approx(golden.stored[dim + i]).margin(5e-6));
      CHECK(memory.back() == -99.0F);  // nothing is written past the row
    }
  }
}

TEST_CASE("averages change neither the weights nor the slots", "[optim]") {
  for (const OptimizerInfo& info : kOptimizers) {
    for (const uint32_t dim : {1U, 3U, 16U}) {
      OptimizerSpec plain = info.defaults, averaging = info.defaults;
      averaging.ema = 0.9F;
      std::vector<float> want = start_rows(plain, dim, 1, stored_floats(plain, dim));
      std::vector<float> got = start_rows(averaging, dim, 1, stored_floats(averaging, dim));
      const std::vector<float> gradients(dim, 0.25F);
      for (uint32_t step = 1; step <= 5; ++step) {
        const RowUpdate update;
        const StepRate rate = step_rate(plain, step);
        update_kernel(plain, dim)(plain, {want.data(), 0, dim}, {&update, 1}, &rate,
                                  gradients.data());
        update_kernel(averaging, dim)(averaging, {got.data(), 0, dim}, {&update, 1}, &rate,
                                      gradients.data());
      }
      INFO(info.name << " dim " << dim);
      CHECK(std::equal(want.begin(), want.end(), got.begin()));
      CHECK(got.back() == 5.0F);
    }
  }
}

TEST_CASE("every optimizer has reference values", "[optim]") {
  const std::vector<OptimizerSpec> specs = golden_specs();
  for (const OptimizerInfo& info : kOptimizers) {
    INFO(info.name);
    CHECK(std::ranges::find(specs, info.type, &OptimizerSpec::type) != specs.end());
  }
}

TEST_CASE("a row that occurs twice in a call takes both gradients in order", "[optim]") {
  for (const OptimizerSpec& spec : golden_specs()) {
    const size_t stride = stored_floats(spec, 3);
    std::vector<float> once = start_rows(spec, 3, 1, stride);
    std::vector<float> twice = once;
    const UpdateRows update = update_kernel(spec, 3);
    const StepRate rates[] = {step_rate(spec, 1), step_rate(spec, 2)};
    const RowUpdate both[] = {{0, 0}, {0, 1}};
    update(spec, {twice.data(), stride, 3}, std::span<const RowUpdate>(both), rates, kGradients);
    update(spec, {once.data(), stride, 3}, {both, 1}, rates, kGradients);
    update(spec, {once.data(), stride, 3}, {both + 1, 1}, rates + 1, kGradients);
    CHECK(once == twice);
  }
}

TEST_CASE("an FTRL weight keeps its initial value under a zero gradient", "[optim]") {
  const OptimizerSpec spec{
      .type = OptimizerType::kFtrl, .learning_rate = 0.1F, .l1 = 0.5F, .l2 = 0.2F};
  std::vector<float> row = start_rows(spec, 3, 1, stored_floats(spec, 3));
  const float zeros[3] = {};
  const RowUpdate update;
  update_kernel(spec, 3)(spec, {row.data(), 9, 3}, {&update, 1}, nullptr, zeros);
  for (int i = 0; i < 3; ++i) CHECK(row[i] == Approx(kStart[i]).margin(1e-6));
}

TEST_CASE("FTRL with l1 keeps a weight at exactly 0 until the sum of its gradients exceeds l1",
          "[optim]") {
  const OptimizerSpec spec{.type = OptimizerType::kFtrl, .learning_rate = 0.1F, .l1 = 1.0F};
  float row[3] = {};
  start_slots(spec, 1, row);
  const RowUpdate update;
  const float gradient = 0.4F;
  for (int step = 1; step <= 4; ++step) {
    update_kernel(spec, 1)(spec, {row, 3, 1}, {&update, 1}, nullptr, &gradient);
    CHECK((row[0] == 0.0F) == (step <= 2));  // 0.4, 0.8 <= 1 < 1.2
  }
}

TEST_CASE("the bias correction counts the steps before step 1, a schedule does not", "[optim]") {
  for (const OptimizerType type : {OptimizerType::kAdam, OptimizerType::kAdamW}) {
    const OptimizerSpec plain{.type = type, .learning_rate = 0.01F};
    for (const uint64_t before : {1U, 9U, 1000U}) {
      CHECK(step_rate(plain, 1, 0, before) == step_rate(plain, before + 1));
      CHECK(step_rate(plain, 5, 0, before) == step_rate(plain, before + 5));
      CHECK(step_rate(plain, 1, 0, before).rate != step_rate(plain, 1).rate);
    }
    OptimizerSpec warm_up = plain;
    warm_up.schedule = {.type = ScheduleType::kConstant, .warmup_steps = 10};
    const StepRate first = step_rate(warm_up, 1, 0, 1000);
    CHECK(first.rate == Approx(step_rate(plain, 1001).rate / 10));
    CHECK(first.plain == Approx(0.001));
  }
  const OptimizerSpec sgd{.type = OptimizerType::kSgd, .learning_rate = 0.01F};
  CHECK(step_rate(sgd, 1, 0, 1000).rate == 0.01F);
}

TEST_CASE("StepRates returns the same rate as step_rate", "[optim]") {
  const OptimizerSpec adam{.type = OptimizerType::kAdam, .learning_rate = 0.01F};
  StepRates rates(adam);
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    const uint64_t step = 1 + rng.below(40);
    REQUIRE(rates(step, 0) == step_rate(adam, step));
    const uint64_t before = rng.below(3);
    REQUIRE(rates(step, 0, before) == step_rate(adam, step, 0, before));
  }
  CHECK(step_rate(adam, 1'000'000).rate == Approx(0.01));
}

}  // namespace downpour::optim
