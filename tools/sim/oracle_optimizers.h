// The optimizers of the oracle, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/tensor/optimizers.h"

namespace downpour::sim {

/// A variable of a table. A row stores it as [weights][slot 0][slot 1][slot of the row].
struct OracleVariable {
  OptimizerSpec optimizer;  // of the ps
  double local_rate = 1;    // mode "local": the learning rate of a replica that trains alone
  uint32_t dim = 0;
  uint32_t slots = 0;
  uint32_t row_slots = 0;
  /// Number of floats of a stored row.
  size_t stored_floats() const { return size_t{dim} * (1 + slots) + row_slots; }
};

/// Returns the learning rate of a partition's step, including its schedule and Adam's bias
/// correction.
double rate_of(const OracleVariable& table_variable, uint64_t step);

/// Applies a step to a row of row-wise Adagrad.
void apply_row_wise(const OracleVariable& table_variable, double rate,
                    std::span<const double> gradient, double* stored);

/// Applies a step to one weight. `at` is its index among the variable's weights in a stored row.
void apply(const OracleVariable& table_variable, double rate, double gradient, double* stored,
           size_t at);

}  // namespace downpour::sim
