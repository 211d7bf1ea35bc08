// Kernels: pooling of embedding rows and its backward pass, products with one column. All run on
// the calling thread. Sums have a fixed order, so the bits depend only on the build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/model/bag_view.h"
#include "shared/model/gemm.h"

namespace downpour::model {

/// Sums the rows of each record: s[i, j] = sum over the keys of record r in bag i of value *
/// rows[key, j]. With `mean` this is divided by the sum of the values (0 if that sum is 0). With
/// `concat` sets out[r, i * dim + j] = s[i, j]. Otherwise adds the s of all bags to out[r, j],
/// which the caller has initialized. Row 0 of `out` belongs to record rows.begin.
void pool_forward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                  Matrix out);

/// The share of the unique keys that one thread sums: the keys whose hash falls into part `index`
/// of `count`. Keys are assigned in blocks of 16, so that two threads do not write to one cache
/// line. Blocks are assigned by hash, because low indices are the frequent keys.
struct KeyShare {
  uint32_t index = 0;
  uint32_t count = 1;
  bool owns(uint32_t key) const {
    return uint32_t((uint64_t{(key >> 4) * 2654435769U} * count) >> 32) == index;
  }
};

/// Adds value * out_gradient[r, ...] to gradient[key, j] for every key of pool_forward() that
/// `share` owns. The order in which an element is summed does not depend on the share; within one
/// bag it is the order of the records.
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
