// Initializers: the value of an element that was never written, from (seed, variable, key, column)
// alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/tensor/variables.h"

namespace downpour::optim {

/// The seed of one variable of a job: of the job's seed and the variable's name.
uint64_t variable_seed(uint64_t seed, std::string_view variable);

/// Writes the `dim` initial values of row (or dense block) `key` to `out`, which may be unaligned.
/// The normal distribution is inverted, not sampled by rejection: one word an element, absolute
/// error below 2e-6 deviations.
void fill_initial(const InitSpec& init, uint64_t variable_seed, uint64_t key, uint32_t dim,
                  void* out);

}  // namespace downpour::optim
