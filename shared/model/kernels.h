// Kernels: pooling of embedding rows and its backward pass, products with one column. All run on
// the calling thread. Sums have a fixed order, so the bits depend only on the build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/model/bag_view.h"
#include "shared/model/gemm.h"

namespace downpour::model {

/// Sums the embedding rows of each record and bag: s[i, j] is the sum of value * row[j] over the
/// keys of record r in bag i. With `mean`, s[i, j] is divided by the sum of the values (0 if that
/// sum is 0). With `concat`, sets out[r, i * dim + j] = s[i, j]. Without it, adds s[i, j] of every
/// bag i to out[r, j], which the caller has initialized. Row 0 of `out` belongs to record
/// rows.begin.
void pool_forward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                  Matrix out);

/// The share of a batch's distinct keys whose gradients one thread sums: share `index` of `count`.
/// Blocks of 16 keys belong to the same share, so that two threads do not write to one cache line.
/// A hash assigns the blocks to shares, because the most frequent keys have the lowest numbers.
struct KeyShare {
  uint32_t index = 0;
  uint32_t count = 1;
  bool owns(uint32_t key) const {
    return uint32_t((uint64_t{(key >> 4) * 2654435769U} * count) >> 32) == index;
  }
};

/// Adds the gradients of pool_forward(). For each key that `share` owns and each record r with this
/// key, adds value * out_gradient[r, ...] to gradient[key, j]; `mean` divides as in pool_forward().
/// The order in which an element is summed does not depend on the share; within one bag it is the
/// order of the records.
void pool_backward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                   ConstMatrix out_gradient, KeyShare share);

/// Adds rows[k, j] to gradient[keys[k], j] for the keys that `share` owns.
void add_rows(std::span<const uint32_t> keys, const float* rows, size_t dim, KeyShare share,
              float* gradient);

/// to (+)= from.
void copy(ConstMatrix from, Matrix to, size_t rows, size_t width, bool accumulate);

/// sums[j] (+)= sum over rows of x[r, j].
void sum_rows(ConstMatrix x, size_t rows, size_t width, bool accumulate, float* sums);

/// y[r] = sum over j of x[r, j] w[j]. y has stride `y_stride`.
void dot_rows(ConstMatrix x, size_t rows, size_t width, const float* w, float* y, size_t y_stride);
/// w_gradient[j] (+)= sum over r of x[r, j] d[r].
void weigh_rows(ConstMatrix x, size_t rows, size_t width, const float* d, size_t d_stride,
                bool accumulate, float* w_gradient);
/// x_gradient[r, j] (+)= d[r] w[j].
void outer_rows(const float* d, size_t d_stride, const float* w, size_t rows, size_t width,
                bool accumulate, Matrix x_gradient);

}  // namespace downpour::model
