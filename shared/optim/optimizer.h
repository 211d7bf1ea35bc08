// Optimizers on stored rows: the slots, their initial values, and the kernels that update many rows
// of one variable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/optim/step_rate.h"
#include "shared/tensor/optimizers.h"

namespace downpour::optim {

/// Returns the number of floats of a stored row: the weights, then each slot, `dim` floats each,
/// then the slots of the row, and with `spec.ema` the averages of the weights and the number of
/// updates that they have seen.
constexpr uint32_t stored_floats(const OptimizerSpec& spec, uint32_t dim) {
  return dim * (1 + slots_of(spec)) + row_slots_of(spec);
}

/// Returns the position in a stored row of the weights that a model predicts with: of the averages
/// if the row has them, otherwise of the weights themselves.
constexpr uint32_t model_weights_at(const OptimizerSpec& spec, uint32_t dim) {
  return spec.ema > 0 ? stored_floats(spec, dim) - dim - 1 : 0;
}

/// Returns true if the learning rate changes during training, so that every update needs its own
/// rate: Adam, AdamW, and every optimizer with a schedule.
constexpr bool rate_needs_step(const OptimizerSpec& spec) {
  return info_of(spec.type).rate_needs_step || spec.schedule.given();
}

/// Returns the learning rate of step `step`, counted from 1, after `reductions` reductions by the
/// schedule `plateau`. The slots have seen `steps_before` steps before step 1. The bias correction
/// counts them, the schedule does not.
StepRate step_rate(const OptimizerSpec& spec, uint64_t step, uint32_t reductions = 0,
                   uint64_t steps_before = 0);

/// Caches step_rate() of recent steps, so that partitions that advance together share one
/// computation.
class StepRates final {
 public:
  explicit StepRates(const OptimizerSpec& spec) : spec_(spec) {}
  StepRate operator()(uint64_t step, uint32_t reductions, uint64_t steps_before = 0) {
    Cached& cached = cached_[step % cached_.size()];
    if (cached.step != step || cached.steps_before != steps_before ||
        cached.reductions != reductions)
      cached = {step, steps_before, reductions, step_rate(spec_, step, reductions, steps_before)};
    return cached.rate;
  }

 private:
  struct Cached {
    uint64_t step = 0;  // 0 = empty: steps are counted from 1
    uint64_t steps_before = 0;
    uint32_t reductions = 0;
    StepRate rate;
  };
  OptimizerSpec spec_;
  std::array<Cached, 16> cached_{};
};

/// Writes the slots of a row whose weights were just initialized: the stored_floats(spec, dim) -
/// dim floats after the weights. FTRL recomputes the weights from z at every update. Therefore its
/// z starts at the value that yields the initial weight. Averages start at the weights.
void start_slots(const OptimizerSpec& spec, uint32_t dim, float* row);

/// One update: the indices of the row and of its gradient.
struct RowUpdate {
  uint32_t row = 0;
  uint32_t gradient = 0;
  uint32_t partition = 0;  // for the caller; the kernels do not read it
};

/// The rows of a variable in memory: row r starts at base + r * stride.
struct Rows {
  float* base = nullptr;
  size_t stride = 0;  // floats
  uint32_t dim = 0;
};

/// Updates rows in place, in the given order; a row may occur twice. `gradients` is float32 [*,
/// rows.dim] and may be unaligned. `rates` has one rate per update if rate_needs_step(), otherwise
/// it is not read. Runs on the calling thread, in float32. Every update is computed separately, so
/// the bits do not depend on how updates are grouped into calls.
using UpdateRows = void (*)(const OptimizerSpec& spec, const Rows& rows,
                            std::span<const RowUpdate> updates, const StepRate* rates,
                            const void* gradients);

/// Returns the kernel for rows of `dim` weights. Choose it once and call it for many rows.
UpdateRows update_kernel(const OptimizerSpec& spec, uint32_t dim);

}  // namespace downpour::optim
