// Kernels: pooling of rows and its backward pass, bias with activation, products with one column.
// All on the calling thread; sums run in the order of records, so bits depend on the build alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/model/gemm.h"
#include "shared/model/program.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// Records [begin, end) of a batch.
struct Rows {
  size_t begin = 0;
  size_t end = 0;
  size_t count() const { return end - begin; }
};

/// One bag of a PoolOp for one step: where its keys, and its rows or their gradients lie ([unique
/// keys, dim]).
struct BagView {
  const BagColumn* bag = nullptr;
  const float* rows = nullptr;
  float* gradient = nullptr;
  const uint32_t* places = nullptr;  // of its keys' rows; null: the keys are the places

  const uint32_t* keys() const { return places != nullptr ? places : bag->keys.data(); }
};

/// out[r, i * dim + j] (concat) or out[r, j] (added over all bags, set before or kept as it is) =
/// sum over the keys of record r in bag i of value * rows[key, j]; with `mean` divided by the sum
/// of the values, 0 where that is 0. Row 0 of `out` belongs to record rows.begin.
void pool_forward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                  Matrix out);

/// The share of the unique keys that one thread sums: those whose hash falls in part `index` of
/// `count`. Keys go by blocks of 16, so that threads do not write to one cache line, and by hash,
/// since low indices are the frequent keys.
struct KeyShare {
  uint32_t index = 0;
  uint32_t count = 1;
  bool owns(uint32_t key) const {
    return uint32_t((uint64_t{(key >> 4) * 2654435769U} * count) >> 32) == index;
  }
};

/// gradient[key, j] += value * out_gradient[r, ...] for every key of pool_forward that `share`
/// owns; each element is summed in the order of records within a call, whatever the share.
void pool_backward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                   ConstMatrix out_gradient, KeyShare share);

/// gradient[keys[k], j] += rows[k, j] for the keys that `share` owns.
void add_rows(std::span<const uint32_t> keys, const float* rows, size_t dim, KeyShare share,
              float* gradient);

/// x = activation(x + bias); bias may be null. x is [rows, width].
void add_bias_activate(Matrix x, size_t rows, size_t width, const float* bias,
                       Activation activation);

/// to = activation(from).
void activate(ConstMatrix from, Matrix to, size_t rows, size_t width, Activation activation);

/// to (+)= gradient * activation'(y), with y the activation's result: y > 0 for relu, y (1 - y) for
/// sigmoid. `to` may be `gradient` itself without `accumulate`.
void activate_backward(ConstMatrix gradient, ConstMatrix y, Matrix to, size_t rows, size_t width,
                       Activation activation, bool accumulate);

/// to (+)= from.
void copy(ConstMatrix from, Matrix to, size_t rows, size_t width, bool accumulate);

/// sums[j] (+)= sum over rows of x[r, j].
void sum_rows(ConstMatrix x, size_t rows, size_t width, bool accumulate, float* sums);

/// y[r] = sum over j of x[r, j] w[j]; y has stride `y_stride`.
void dot_rows(ConstMatrix x, size_t rows, size_t width, const float* w, float* y, size_t y_stride);
/// w_gradient[j] (+)= sum over r of x[r, j] d[r].
void weigh_rows(ConstMatrix x, size_t rows, size_t width, const float* d, size_t d_stride,
                bool accumulate, float* w_gradient);
/// x_gradient[r, j] (+)= d[r] w[j].
void outer_rows(const float* d, size_t d_stride, const float* w, size_t rows, size_t width,
                bool accumulate, Matrix x_gradient);

}  // namespace downpour::model
