#include "shared/optim/optimizer.h"

#include <concepts>
#include <cstring>
#include <type_traits>

#include "shared/base/check.h"
#include "shared/optim/adagrad.h"
#include "shared/optim/adam.h"
#include "shared/optim/adamw.h"
#include "shared/optim/average.h"
#include "shared/optim/ftrl.h"
#include "shared/optim/momentum.h"
#include "shared/optim/rmsprop.h"
#include "shared/optim/rowwise_adagrad.h"
#include "shared/optim/schedule.h"
#include "shared/optim/sgd.h"

namespace downpour::optim {
namespace {

// Gradients are read from a message, so they may be unaligned.
using UnalignedFloat [[gnu::aligned(1), gnu::may_alias]] = float;

/// A local copy of the floats of a row, a slot or a gradient. Without the copy the compiler unrolls
/// a short loop before it knows that the arrays do not overlap, and the loop stays scalar.
template <uint32_t kDim>
struct Lanes {
  alignas(64) float values[kDim];
  explicit Lanes(const void* from) { std::memcpy(values, from, sizeof values); }
  void store(void* to) const { std::memcpy(to, values, sizeof values); }
};

/// A rule with a slot for each row. The weights of a row have the same rate.
template <typename Rule>
concept RowRule = requires(const Rule& rule, float& slot) {
  { rule.row_rate(0.0F, slot) } -> std::same_as<float>;
};

/// Returns the mean of the squares of a row's gradient. The order of the sum depends only on `dim`.
inline float mean_square(const UnalignedFloat* g, uint32_t dim) {
  using Four [[gnu::vector_size(4 * sizeof(float))]] = float;
  const auto squares = [&](uint32_t begin) {
    Four values;
    std::memcpy(&values, g + begin, sizeof values);
    return values * values;
  };
  Four parts[4] = {};  // independent sums, so that additions overlap
  uint32_t i = 0;
  for (; i + 16 <= dim; i += 16)
    for (uint32_t k = 0; k < 4; ++k) parts[k] += squares(i + 4 * k);
  Four sums = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  for (; i + 4 <= dim; i += 4) sums += squares(i);
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (; i < dim; ++i) sum += g[i] * g[i];
  return sum / float(dim);
}

/// Updates one row by applying `Rule` to each element. `kSlots` is the number of slots that the
/// rule's operator() takes. `kDim` is the width if it is known at compile time, or 0.
template <typename Rule, uint32_t kSlots, uint32_t kDim>
inline void update_row(const Rule& rule, float* row, const UnalignedFloat* g, uint32_t dim) {
  float* const s0 = row + dim;
  float* const s1 = row + 2 * size_t(dim);
  if constexpr (kDim > 1) {
    const Lanes<kDim> gradient(g);
    Lanes<kDim> w(row), a(kSlots > 0 ? s0 : row), b(kSlots > 1 ? s1 : row);
    for (uint32_t i = 0; i < kDim; ++i) {
      if constexpr (kSlots == 0) rule(gradient.values[i], w.values[i]);
      if constexpr (kSlots == 1) rule(gradient.values[i], w.values[i], a.values[i]);
      if constexpr (kSlots == 2) rule(gradient.values[i], w.values[i], a.values[i], b.values[i]);
    }
    w.store(row);
    if constexpr (kSlots > 0) a.store(s0);
    if constexpr (kSlots > 1) b.store(s1);
    return;
  }
#pragma GCC ivdep  // weights, slots and gradient do not overlap
  for (uint32_t i = 0; i < dim; ++i) {
    if constexpr (kSlots == 0) rule(g[i], row[i]);
    if constexpr (kSlots == 1) rule(g[i], row[i], s0[i]);
    if constexpr (kSlots == 2) rule(g[i], row[i], s0[i], s1[i]);
  }
}

/// The same for a rule of rows.
template <RowRule Rule, uint32_t kSlots, uint32_t kDim>
inline void update_row(const Rule& rule, float* row, const UnalignedFloat* g, uint32_t dim) {
  const float rate = rule.row_rate(mean_square(g, dim), row[dim]);
#pragma GCC ivdep  // weights and gradient do not overlap
  for (uint32_t i = 0; i < dim; ++i) row[i] -= rate * g[i];
}

/// Writes the initial slots of one row.
template <typename Rule, uint32_t kSlots>
void start_row(const Rule& rule, const OptimizerSpec& spec, uint32_t dim, float* row) {
  [[maybe_unused]] float* const s0 = row + dim;
  [[maybe_unused]] float* const s1 = row + 2 * size_t(dim);
#pragma GCC ivdep
  for (uint32_t i = 0; i < dim; ++i) {
    if constexpr (kSlots == 1) rule.start(spec, row[i], s0[i]);
    if constexpr (kSlots == 2) rule.start(spec, row[i], s0[i], s1[i]);
  }
}

/// Returns the rule of a step.
template <typename Rule>
Rule rule_of(const OptimizerSpec& spec, const StepRate& rate) {
  if constexpr (std::is_constructible_v<Rule, const OptimizerSpec&, const StepRate&>) {
    return Rule(spec, rate);
  } else {
    return Rule(spec, rate.rate);
  }
}

/// Updates many rows. `kOwnRates`: each update has its own rate. `kDim`: as for update_row().
template <typename Rule, uint32_t kSlots, bool kOwnRates, uint32_t kDim>
void update_rows(const OptimizerSpec& spec, const Rows& rows, std::span<const RowUpdate> updates,
                 const StepRate* rates, const void* gradients) {
  const uint32_t dim = kDim == 0 ? rows.dim : kDim;
  const auto* g = static_cast<const UnalignedFloat*>(gradients);
  const auto shared = rule_of<Rule>(spec, {spec.learning_rate, spec.learning_rate});
  for (size_t i = 0; i < updates.size(); ++i) {
    const RowUpdate& update = updates[i];
    float* const row = rows.base + update.row * rows.stride;
    const UnalignedFloat* const gradient = g + size_t(update.gradient) * dim;
    if constexpr (kOwnRates) {
      update_row<Rule, kSlots, kDim>(rule_of<Rule>(spec, rates[i]), row, gradient, dim);
    } else {
      update_row<Rule, kSlots, kDim>(shared, row, gradient, dim);
    }
  }
}

/// An optimizer at compile time: its entry in kOptimizers and its rule.
template <OptimizerType kType, typename RuleOfType>
struct Choice {
  using Rule = RuleOfType;
  static constexpr OptimizerInfo kInfo = kOptimizers.at(size_t(kType));
  static_assert(kInfo.slots <= 2, "extend update_row() and start_row() for a third slot");
  static_assert(RowRule<Rule> ? kInfo.slots == 0 && kInfo.row_slots == 1 : kInfo.row_slots == 0);
};

/// Calls `f` with the Choice of an optimizer.
template <typename F>
auto choose(const OptimizerSpec& spec, const F& f) {
  switch (spec.type) {
    case OptimizerType::kSgd:
      return f(Choice<OptimizerType::kSgd, Sgd>{});
    case OptimizerType::kMomentum:
      return spec.nesterov ? f(Choice<OptimizerType::kMomentum, Momentum<true>>{})
                           : f(Choice<OptimizerType::kMomentum, Momentum<false>>{});
    case OptimizerType::kAdagrad:
      return f(Choice<OptimizerType::kAdagrad, Adagrad>{});
    case OptimizerType::kAdam:
      return f(Choice<OptimizerType::kAdam, Adam>{});
    case OptimizerType::kFtrl:
      return f(Choice<OptimizerType::kFtrl, Ftrl>{});
    case OptimizerType::kRmsProp:
      return f(Choice<OptimizerType::kRmsProp, RmsProp>{});
    case OptimizerType::kAdamW:
      return f(Choice<OptimizerType::kAdamW, AdamW>{});
    case OptimizerType::kRowwiseAdagrad:
      return f(Choice<OptimizerType::kRowwiseAdagrad, RowwiseAdagrad>{});
  }
  DP_CHECK(false, int(spec.type));
  return f(Choice<OptimizerType::kSgd, Sgd>{});
}

}  // namespace

StepRate step_rate(const OptimizerSpec& spec, uint64_t step, uint32_t reductions,
                   uint64_t steps_before) {
  const float rate = choose(spec, [&]<typename C>(C) {
    if constexpr (C::kInfo.rate_needs_step) {
      DP_CHECK(step >= 1, step);
      return C::Rule::step_rate(spec, steps_before + step);
    } else {
      return spec.learning_rate;
    }
  });
  if (!spec.schedule.given()) return {rate, spec.learning_rate};
  const double factor = schedule_factor(spec.schedule, step, reductions);
  return {float(double(rate) * factor), float(double(spec.learning_rate) * factor)};
}

void start_slots(const OptimizerSpec& spec, uint32_t dim, float* row) {
  choose(spec, [&]<typename C>(C) {
    const auto rule = rule_of<typename C::Rule>(spec, {spec.learning_rate, spec.learning_rate});
    if constexpr (C::kInfo.slots > 0)
      start_row<typename C::Rule, C::kInfo.slots>(rule, spec, dim, row);
    if constexpr (C::kInfo.row_slots > 0) rule.start(spec, row[dim]);
  });
  if (spec.averages()) start_average(dim, row, row + model_weights_at(spec, dim));
}

namespace {

template <typename Rule, uint32_t kSlots, bool kOwnRates>
UpdateRows kernel_of_width(uint32_t dim) {
  if (dim == 1) return update_rows<Rule, kSlots, kOwnRates, 1>;
  if (dim == 16) return update_rows<Rule, kSlots, kOwnRates, 16>;
  return update_rows<Rule, kSlots, kOwnRates, 0>;
}

/// Returns the kernel that updates weights and slots, without averages.
UpdateRows weights_kernel(const OptimizerSpec& spec, uint32_t dim) {
  return choose(spec, [&]<typename C>(C) -> UpdateRows {
    constexpr uint32_t kSlots = C::kInfo.slots;
    if (spec.schedule.given()) return kernel_of_width<typename C::Rule, kSlots, true>(dim);
    return kernel_of_width<typename C::Rule, kSlots, C::kInfo.rate_needs_step>(dim);
  });
}

/// Updates rows and their averages.
void update_with_averages(const OptimizerSpec& spec, const Rows& rows,
                          std::span<const RowUpdate> updates, const StepRate* rates,
                          const void* gradients) {
  const UpdateRows update = weights_kernel(spec, rows.dim);
  const uint32_t average_at = model_weights_at(spec, rows.dim);
  for (size_t i = 0; i < updates.size(); ++i) {
    update(spec, rows, updates.subspan(i, 1), rate_needs_step(spec) ? rates + i : nullptr,
           gradients);
    float* const row = rows.base + updates[i].row * rows.stride;
    average_weights(spec.ema, rows.dim, row, row + average_at);
  }
}

}  // namespace

UpdateRows update_kernel(const OptimizerSpec& spec, uint32_t dim) {
  DP_CHECK(dim > 0);
  return spec.averages() ? update_with_averages : weights_kernel(spec, dim);
}

}  // namespace downpour::optim
