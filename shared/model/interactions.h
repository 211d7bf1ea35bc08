// Interactions: the kernels of a factorization machine. Both run on the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "shared/model/kernels.h"

namespace downpour::model {

/// Computes the interactions of each record. Its keys in all bags are numbered; x_i is the value of
/// key i, and v_i its row. Sets out[r] to the sum of <x_i v_i, x_j v_j> over all pairs i < j. With
/// `by_column`, sets out[r, d] to the sum of x_i v_i[d] x_j v_j[d] over these pairs instead. Sets
/// sums[r, ...] to the sum of x_i v_i over all keys; `sums` is [rows, dim].
/// Numerics: float32. For each key i, adds the product of x_i v_i and the sum of all x_j v_j with
///   j < i. The result equals ((sum x_i v_i)^2 - sum (x_i v_i)^2) / 2, summed over the columns, but
///   nothing is subtracted. A record with fewer than two keys has exactly 0.
/// Source: Rendle, "Factorization Machines", ICDM 2010.
void interactions_forward(std::span<const BagView> bags, uint32_t dim, bool by_column, Rows rows,
                          Matrix sums, Matrix out);

/// Adds x_i (sums[r, j] - x_i v_i[j]) out_gradient[r] (with `by_column` out_gradient[r, j]) to
/// gradient[key, j] for every key of interactions_forward() that `share` owns. The order in which
/// an element is summed does not depend on the share.
void interactions_backward(std::span<const BagView> bags, uint32_t dim, bool by_column, Rows rows,
                           ConstMatrix sums, ConstMatrix out_gradient, KeyShare share);

}  // namespace downpour::model
