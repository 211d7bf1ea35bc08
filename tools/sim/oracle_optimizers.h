// The optimizers of the oracle, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/sim/oracle.h"

namespace downpour::sim {

/// Returns the learning rate of a partition's step, including its schedule and Adam's bias
/// correction.
double rate_of(const Oracle::TableVariable& table_variable, uint64_t step);

/// Applies a step to a row of row-wise Adagrad.
void apply_row_wise(const Oracle::TableVariable& table_variable, double rate,
                    std::span<const double> gradient, double* stored);

/// Applies a step to one weight. `at` is its index among the variable's weights in a stored row.
void apply(const Oracle::TableVariable& table_variable, double rate, double gradient,
           double* stored, size_t at);

}  // namespace downpour::sim
