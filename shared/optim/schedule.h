// The factor by which a schedule multiplies the learning rate of a step.
#pragma once

#include <cstdint>

#include "shared/tensor/schedules.h"

namespace downpour::optim {

/// Returns the factor of step `step`, counted from 1. With n = step - max(warmup_steps, 1), at
/// least 0, and N = decay_steps:
///   warm-up        step / warmup_steps, before step warmup_steps
///   constant       1
///   step           decay_rate ^ floor(n / N)           (PyTorch StepLR)
///   exponential    decay_rate ^ (n / N)                (Keras ExponentialDecay)
///   polynomial     end + (1 - end) (1 - min(n/N, 1)) ^ power            (Keras PolynomialDecay)
///   cosine         end + (1 - end) (1 + cos(pi min(n/N, 1))) / 2        (Keras CosineDecay)
///   inverse_sqrt   sqrt(N / (N + n)), by default with N = max(warmup_steps, 1); then it is
///                  sqrt(N / step) as in Vaswani et al. 2017, section 5.3
///   plateau        max(min, factor ^ reductions)       (Keras ReduceLROnPlateau)
/// `reductions`: how often the rate was reduced so far; only plateau uses it.
double schedule_factor(const ScheduleSpec& spec, uint64_t step, uint32_t reductions);

/// Returns the number of reductions after which a plateau has its smallest factor.
uint32_t reductions_max(const ScheduleSpec& spec);

}  // namespace downpour::optim
