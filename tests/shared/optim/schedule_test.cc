#include "shared/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/optim/optimizer.h"

namespace downpour::optim {
namespace {

struct ScheduleGolden {
  ScheduleSpec spec;
  uint32_t reductions = 0;
  std::vector<double> factors;  // of steps 1 to 100
};
const std::vector<ScheduleGolden>& schedule_goldens() {
  static const std::vector<ScheduleGolden> all = {
#include "schedule_golden.inc"
  };
  return all;
}

/// Updates one weight with the gradients and returns its value after each step. `factors`: of the
/// learning rate, by step; empty: the schedule of the spec applies.
std::vector<double> weights_of(const OptimizerSpec& spec, const std::vector<float>& gradients,
                               const std::vector<double>& factors) {
  std::vector<float> row(stored_floats(spec, 1));
  row[0] = 0.5F;
  start_slots(spec, 1, row.data());
  const UpdateRows update = update_kernel(spec, 1);
  std::vector<double> weights;
  for (size_t i = 0; i < gradients.size(); ++i) {
    StepRate rate = step_rate(spec, i + 1);
    if (!factors.empty()) {
      rate = {float(double(rate.rate) * factors[i]), float(double(rate.plain) * factors[i])};
    }
    const RowUpdate one;
    update(spec, {row.data(), row.size(), 1}, {&one, 1}, &rate, &gradients[i]);
    weights.push_back(double(row[0]));
  }
  return weights;
}

}  // namespace

TEST_CASE("every schedule matches its reference over 100 steps", "[optim]") {
  for (const ScheduleGolden& golden : schedule_goldens()) {
    REQUIRE(golden.factors.size() == 100);
    for (size_t i = 0; i < golden.factors.size(); ++i) {
      INFO(info_of(golden.spec.type).name << ", step " << i + 1);
      CHECK(schedule_factor(golden.spec, i + 1, golden.reductions) ==
            Approx(golden.factors[i]).epsilon(1e-12).margin(1e-15));
    }
  }
}

TEST_CASE("every type of schedule has a reference", "[optim]") {
  for (const ScheduleInfo& info : kSchedules) {
    if (info.type == ScheduleType::kNone) continue;
    INFO(info.name);
    CHECK(std::ranges::any_of(schedule_goldens(),
                              [&](const ScheduleGolden& g) { return g.spec.type == info.type; }));
  }
}

TEST_CASE("a plateau reaches its smallest factor after reductions_max()", "[optim]") {
  const ScheduleSpec spec{.type = ScheduleType::kPlateau, .factor = 0.5F, .min = 0.1F};
  CHECK(reductions_max(spec) == 4);
  // 0.1F * 0.1F is above 0.01F.
  CHECK(reductions_max({.type = ScheduleType::kPlateau, .factor = 0.1F, .min = 0.01F}) == 2);
  CHECK(schedule_factor(spec, 1, 3) == Approx(0.125));
  CHECK(schedule_factor(spec, 1, 4) == Approx(double(spec.min)));
  CHECK(schedule_factor(spec, 1, UINT32_MAX) == Approx(double(spec.min)));
  CHECK(reductions_max({.type = ScheduleType::kPlateau, .factor = 0.5F, .min = 1.0F}) == 0);
}

TEST_CASE("a schedule multiplies the learning rate of every optimizer", "[optim]") {
  for (const OptimizerInfo& info : kOptimizers) {
    OptimizerSpec plain = info.defaults;
    OptimizerSpec scheduled = plain;
    scheduled.schedule = {
        .type = ScheduleType::kExponential, .decay_steps = 2, .decay_rate = 0.25F};
    for (const uint64_t step : {1U, 2U, 5U, 50U}) {
      INFO(info.name << ", step " << step);
      CHECK(step_rate(scheduled, step).rate ==
            Approx(double(step_rate(plain, step).rate) * std::pow(0.5, double(step - 1))));
    }
    CHECK(rate_needs_step(scheduled));
  }
}

TEST_CASE("a constant schedule changes no weight", "[optim]") {
  const std::vector<float> gradients{0.3F, -0.7F, 0.05F, 1.5F, -0.2F, 0.0F, 0.4F};
  for (const OptimizerInfo& info : kOptimizers) {
    OptimizerSpec scheduled = info.defaults;
    scheduled.l1 = scheduled.l2 = 0.05F;
    const std::vector<double> want = weights_of(scheduled, gradients, {});
    scheduled.schedule.type = ScheduleType::kConstant;
    const std::vector<double> got = weights_of(scheduled, gradients, {});
    for (size_t i = 0; i < want.size(); ++i) {
      INFO(info.name << ", step " << i + 1);
      CHECK(got[i] == Approx(want[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("FTRL with another learning rate takes smaller steps, and keeps its weights", "[optim]") {
  OptimizerSpec spec = optimizer_defaults(OptimizerType::kFtrl);
  const float gradient = 0.5F;
  const RowUpdate update;
  const auto step = [&](float* row) {
    const float before = row[0];
    update_kernel(spec, 1)(spec, {row, 3, 1}, {&update, 1}, nullptr, &gradient);
    return before - row[0];
  };
  float row[3] = {};
  start_slots(spec, 1, row);
  for (int i = 0; i < 20; ++i) step(row);
  float same[3];
  std::copy_n(row, 3, same);
  const float large = step(same);
  spec.learning_rate /= 10;
  CHECK(step(row) == Approx(large / 10).epsilon(1e-3));
}

TEST_CASE("FTRL with a schedule takes the steps of its definition", "[optim]") {
  // McMahan et al. 2013 define sigma as the difference of 1 / eta, with eta = alpha / (beta +
  // sqrt(n)), so here the previous alpha is stored.
  OptimizerSpec spec = optimizer_defaults(OptimizerType::kFtrl);
  spec.l1 = 0.02F;
  spec.l2 = 0.1F;
  spec.schedule = {.type = ScheduleType::kStep, .decay_steps = 2, .decay_rate = 0.25F};
  const std::vector<float> gradients{0.3F, -0.7F, 0.5F, 1.5F, -2.0F, 0.1F, 0.4F, -0.9F};
  const std::vector<double> got = weights_of(spec, gradients, {});
  const double beta = 1, l1 = double(spec.l1), l2 = double(spec.l2);
  double w = 0.5, n = 0, alpha = double(spec.learning_rate);
  double z = -w * (beta / alpha + l2) - l1;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const double g = double(gradients[i]);
    const double before = (beta + std::sqrt(n)) / alpha;
    alpha = double(spec.learning_rate) * schedule_factor(spec.schedule, i + 1, 0);
    n += g * g;
    const double now = (beta + std::sqrt(n)) / alpha;
    z += g - (now - before) * w;
    w = std::abs(z) <= l1 ? 0.0 : -(z - std::copysign(l1, z)) / (now + l2);
    INFO("step " << i + 1);
    CHECK(got[i] == Approx(w).epsilon(1e-4).margin(1e-6));
  }
}

TEST_CASE("a rate of 0 leaves the weights of every optimizer unchanged", "[optim]") {
  for (const OptimizerInfo& info : kOptimizers) {
    OptimizerSpec spec = info.defaults;
    spec.l1 = 0.1F;
    spec.schedule = {.type = ScheduleType::kPolynomial, .decay_steps = 2, .end = 0.0F};
    const std::vector<double> weights = weights_of(spec, {0.3F, -0.7F, 0.5F, 1.5F, -2.0F}, {});
    for (size_t i = 2; i < weights.size(); ++i) {
      INFO(info.name << ", step " << i + 1);
      CHECK(weights[i] == Approx(weights[1]).epsilon(1e-6));
    }
  }
}

}  // namespace downpour::optim
