// Initializers: the initial value of an element is a function of (seed, variable, key, column)
// only.
#pragma once

#include <cstdint>
#include <string_view>

#include "shared/tensor/variables.h"

namespace downpour::optim {

/// Returns the seed of one variable, computed from the job's seed and the variable's name.
uint64_t variable_seed(uint64_t seed, std::string_view variable);

/// Writes the `dim` initial values of row (or dense block) `key` to `out`, which may be unaligned.
/// The normal distribution is sampled by inversion and not by rejection: one random word per
/// element, absolute error below 2e-6 standard deviations.
void fill_initial(const InitSpec& init, uint64_t variable_seed, uint64_t key, uint32_t dim,
                  void* out);

}  // namespace downpour::optim
