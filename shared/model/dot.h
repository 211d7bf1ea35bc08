// Dot: the kernels of the pairwise inner products of vectors. Both run on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/model/gemm.h"

namespace downpour::model {

/// Limit of the vectors of a record. Their pairs are about half a million columns.
constexpr size_t kVectorsMax = 1024;

/// Returns the number of pairs of `vectors` different vectors.
constexpr size_t pairs_of(size_t vectors) { return vectors * (vectors - 1) / 2; }

/// Sets out[r, i * (i - 1) / 2 + j] to <v_i, v_j> for all j < i. Vector i of a record is columns
/// [i * dim, (i + 1) * dim) of x.
/// Shapes:   x [rows, vectors * dim]; out [rows, pairs_of(vectors)]; 1 to kVectorsMax vectors.
/// Numerics: float32, summed column by column.
/// Source:   Naumov et al., "Deep Learning Recommendation Model for Personalization and
///   Recommendation Systems", 2019.
void dot_forward(ConstMatrix x, size_t rows, size_t vectors, uint32_t dim, Matrix out);

/// x_gradient (+)= the gradient of dot_forward(): vector i gets the sum, over the other vectors j,
/// of the pair's out_gradient times v_j.
void dot_backward(ConstMatrix x, ConstMatrix out_gradient, size_t rows, size_t vectors,
                  uint32_t dim, bool accumulate, Matrix x_gradient);

}  // namespace downpour::model
