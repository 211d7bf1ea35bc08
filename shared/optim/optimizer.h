// Optimizers on stored rows: slots, their start, and the kernels that update many rows of one
// variable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/tensor/variables.h"

namespace downpour::optim {

/// Floats of state beside each weight.
constexpr uint32_t slot_count(OptimizerType type) {
  switch (type) {
    case OptimizerType::kSgd:
      return 0;
    case OptimizerType::kMomentum:
      return 1;  // velocity
    case OptimizerType::kAdagrad:
      return 1;  // sum of squared gradients
    case OptimizerType::kAdam:
      return 2;  // first moment, second moment
    case OptimizerType::kFtrl:
      return 2;  // z, n
  }
  return 0;
}

/// Floats of a stored row: the weights and then each slot, `dim` floats each.
constexpr uint32_t stored_floats(const OptimizerSpec& spec, uint32_t dim) {
  return dim * (1 + slot_count(spec.type));
}

/// Whether the rate of an update depends on its step, so that every update needs its own.
constexpr bool rate_needs_step(OptimizerType type) { return type == OptimizerType::kAdam; }

/// The learning rate of step `step` (counted from 1), Adam's bias correction included.
float step_rate(const OptimizerSpec& spec, uint64_t step);

/// step_rate() with the steps seen lately remembered: partitions that advance together share one
/// evaluation.
class StepRates final {
 public:
  explicit StepRates(const OptimizerSpec& spec) : spec_(spec) {}
  float operator()(uint64_t step) {
    Cached& cached = cached_[step % cached_.size()];
    if (cached.step != step) cached = {step, step_rate(spec_, step)};
    return cached.rate;
  }

 private:
  struct Cached {
    uint64_t step = 0;  // no step has number 0
    float rate = 0.0F;
  };
  OptimizerSpec spec_;
  std::array<Cached, 16> cached_{};
};

/// Writes the slots of a row whose weights were just initialized: stored_floats(spec, dim) - dim
/// floats after them. FTRL recomputes weights from z at every update, so its z starts where that
/// gives the initial weight back.
void start_slots(const OptimizerSpec& spec, uint32_t dim, float* row);

/// One update: which row takes which gradient.
struct RowUpdate {
  uint32_t row = 0;
  uint32_t gradient = 0;
  uint32_t partition = 0;  // the caller's; the kernels do not read it
};

/// A variable's rows in memory: row r begins at base + r * stride.
struct Rows {
  float* base = nullptr;
  size_t stride = 0;  // floats
  uint32_t dim = 0;
};

/// Updates rows in place, one after the other (so a row may be named twice). gradients: float32 [*,
/// rows.dim], alignment not required. rates: one for each update where rate_needs_step(), else not
/// read. One thread; float32; elementwise, so the bits do not depend on how updates are grouped.
using UpdateRows = void (*)(const OptimizerSpec& spec, const Rows& rows,
                            std::span<const RowUpdate> updates, const float* rates,
                            const void* gradients);

/// The kernel for rows of `dim` weights. Chosen once, called for many rows.
UpdateRows update_kernel(const OptimizerSpec& spec, uint32_t dim);

}  // namespace downpour::optim
