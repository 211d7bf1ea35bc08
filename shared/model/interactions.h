// Interactions: the kernels of a factorization machine. Both run on the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "shared/model/kernels.h"

namespace downpour::model {

/// Sets out[r] to the interactions of record r: the sum, over all pairs i < j of its keys in all
/// bags, of <x_i v_i, x_j v_j>, where x is the value of a key and v its row. With `by_column` sets
/// out[r, d] to the sum of x_i v_i[d] x_j v_j[d]. Sets sums[r, ...] to the sum of x_i v_i, [rows,
/// dim].
/// Numerics: float32. Key by key, x_i v_i is multiplied by the sum of the keys before it. This sum
///   of products equals ((sum x_i v_i)^2 - sum (x_i v_i)^2) / 2, summed over the columns, but
///   subtracts nothing. A record with fewer than two keys has exactly 0.
/// Source: Rendle, "Factorization Machines", ICDM 2010.
void interactions_forward(std::span<const BagView> bags, uint32_t dim, bool by_column, Rows rows,
                          Matrix sums, Matrix out);

/// Adds x_i (sums[r, j] - x_i v_i[j]) out_gradient[r] (with `by_column` out_gradient[r, j]) to
/// gradient[key, j] for every key of interactions_forward() that `share` owns. The order in which
/// an element is summed does not depend on the share.
void interactions_backward(std::span<const BagView> bags, uint32_t dim, bool by_column, Rows rows,
                           ConstMatrix sums, ConstMatrix out_gradient, KeyShare share);

}  // namespace downpour::model
