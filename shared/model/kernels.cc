#include "shared/model/kernels.h"

#include <algorithm>
#include <cstring>

#include "shared/model/pack.h"

namespace downpour::model {
namespace {

/// The width of a row, as a compile-time constant for common widths: dispatch_dim(dim, [&](auto
/// fixed) {...}).
template <uint32_t kFixed>
struct Dim {
  uint32_t runtime;
  constexpr uint32_t get() const { return kFixed != 0 ? kFixed : runtime; }
};

template <typename F>
void dispatch_dim(uint32_t dim, F f) {
  switch (dim) {
    case 1:
      return f(Dim<1>{1});
    case 4:
      return f(Dim<4>{4});
    case 8:
      return f(Dim<8>{8});
    case 16:
      return f(Dim<16>{16});
    case 32:
      return f(Dim<32>{32});
    case 64:
      return f(Dim<64>{64});
    default:
      return f(Dim<0>{dim});
  }
}

/// Returns 1, or 1 / (sum of values) with `mean`; 0 if that sum is 0.
float bag_factor(const BagColumn& bag, Rows keys, bool mean) {
  if (!mean) return 1.0F;
  float sum = float(keys.count());
  if (!bag.values.empty()) {
    sum = 0;
    for (size_t k = keys.begin; k < keys.end; ++k) sum += bag.values[k];
  }
  return sum != 0.0F ? 1.0F / sum : 0.0F;
}

/// Rows are prefetched this many records ahead, because they come from the L2 cache or from further
/// away.
constexpr size_t kPrefetchRecords = 2;

void copy_single_keys(std::span<const BagView> bags, uint32_t dim, Rows rows, Matrix out) {
  dispatch_dim(dim, [&](auto fixed) {
    const size_t d = fixed.get();
    for_blocks(bags, [&](const BagBlock& block, size_t first) {
      for (size_t r = rows.begin; r < rows.end; ++r) {
        const size_t ahead = std::min(r + kPrefetchRecords, rows.end - 1);
        float* to = out.data + (r - rows.begin) * out.stride + first * d;
        for (size_t i = 0; i < block.count; ++i, to += d) {
          __builtin_prefetch(block.rows[i] + size_t{block.keys[i][ahead]} * d);
          std::memcpy(to, block.rows[i] + size_t{block.keys[i][r]} * d, d * sizeof(float));
        }
      }
    });
  });
}

template <bool kShared>
void scatter_single_keys(std::span<const BagView> bags, uint32_t dim, Rows rows, ConstMatrix from,
                         KeyShare share) {
  dispatch_dim(dim, [&](auto fixed) {
    const size_t d = fixed.get();
    for_blocks(bags, [&](const BagBlock& block, size_t first) {
      for (size_t r = rows.begin; r < rows.end; ++r) {
        const size_t ahead = std::min(r + kPrefetchRecords, rows.end - 1);
        const float* gradient = from.data + (r - rows.begin) * from.stride + first * d;
        for (size_t i = 0; i < block.count; ++i, gradient += d) {
          if (!kShared) __builtin_prefetch(block.gradients[i] + size_t{block.keys[i][ahead]} * d);
          const uint32_t key = block.keys[i][r];
          if (kShared && !share.owns(key)) continue;
          float* to = block.gradients[i] + size_t{key} * d;
#pragma omp simd
          for (size_t j = 0; j < d; ++j) to[j] += gradient[j];
        }
      }
    });
  });
}

void add_single_keys(std::span<const BagView> bags, uint32_t dim, Rows rows, Matrix out) {
  for_blocks(bags, [&](const BagBlock& block, size_t) {
    for_packs<64>(dim, [&]<typename P>(P, uint32_t column) {
      for (size_t r = rows.begin; r < rows.end; ++r) {
        float* const to = out.data + (r - rows.begin) * out.stride + column;
        typename P::Vector sum[P::kVectors];
        for (size_t v = 0; v < P::kVectors; ++v) sum[v] = P::at(to, v);
        for (size_t i = 0; i < block.count; ++i) {
          const float* const row = block.rows[i] + size_t{block.keys[i][r]} * dim + column;
          for (size_t v = 0; v < P::kVectors; ++v) sum[v] += P::at(row, v);
        }
        for (size_t v = 0; v < P::kVectors; ++v) P::at(to, v) = sum[v];
      }
    });
  });
}

template <bool kShared>
void scatter_to_single_keys(std::span<const BagView> bags, uint32_t dim, Rows rows,
                            ConstMatrix from, KeyShare share) {
  for_blocks(bags, [&](const BagBlock& block, size_t) {
    for_packs<64>(dim, [&]<typename P>(P, uint32_t column) {
      for (size_t r = rows.begin; r < rows.end; ++r) {
        const float* const d = from.data + (r - rows.begin) * from.stride + column;
        typename P::Vector gradient[P::kVectors];
        for (size_t v = 0; v < P::kVectors; ++v) gradient[v] = P::at(d, v);
        for (size_t i = 0; i < block.count; ++i) {
          const size_t key = block.keys[i][r];
          if (kShared && !share.owns(uint32_t(key))) continue;
          float* const to = block.gradients[i] + key * dim + column;
          for (size_t v = 0; v < P::kVectors; ++v) P::at(to, v) += gradient[v];
        }
      }
    });
  });
}

/// Rows of one float: out[r] += sum of value * weight. The core of logistic regression.
void add_scalar_bag(const BagView& view, bool mean, Rows rows, Matrix out) {
  const BagColumn& bag = *view.bag;
  const float* weights = view.rows;
  const uint32_t* keys = view.keys();
  const float* values = bag.values.data();
  if (one_key_each(view)) {
    for (size_t r = rows.begin; r < rows.end; ++r) {
      out.data[(r - rows.begin) * out.stride] += weights[keys[r]];
    }
    return;
  }
  for (size_t r = rows.begin; r < rows.end; ++r) {
    const Rows range = keys_of(bag, r);
    float sum = 0;
    if (bag.values.empty()) {
#pragma omp simd reduction(+ : sum)
      for (size_t k = range.begin; k < range.end; ++k) sum += weights[keys[k]];
    } else {
#pragma omp simd reduction(+ : sum)
      for (size_t k = range.begin; k < range.end; ++k) sum += values[k] * weights[keys[k]];
    }
    out.data[(r - rows.begin) * out.stride] += sum * bag_factor(bag, range, mean);
  }
}

template <bool kShared>
void scatter_scalar_bag(const BagView& view, bool mean, Rows rows, ConstMatrix from,
                        KeyShare share) {
  const BagColumn& bag = *view.bag;
  const uint32_t* keys = view.keys();
  const float* values = bag.values.data();
  float* gradient = view.gradient;
  if (one_key_each(view)) {
    for (size_t r = rows.begin; r < rows.end; ++r) {
      if (kShared && !share.owns(keys[r])) continue;
      gradient[keys[r]] += from.data[(r - rows.begin) * from.stride];
    }
    return;
  }
  for (size_t r = rows.begin; r < rows.end; ++r) {
    const Rows range = keys_of(bag, r);
    const float d = from.data[(r - rows.begin) * from.stride] * bag_factor(bag, range, mean);
    if (bag.values.empty()) {
      for (size_t k = range.begin; k < range.end; ++k) {
        if (!kShared || share.owns(keys[k])) gradient[keys[k]] += d;
      }
    } else {
      for (size_t k = range.begin; k < range.end; ++k) {
        if (!kShared || share.owns(keys[k])) gradient[keys[k]] += values[k] * d;
      }
    }
  }
}

/// The general case: any number of keys per record, rows of any width.
void add_bag(const BagView& view, uint32_t dim, bool mean, Rows rows, Matrix out) {
  const BagColumn& bag = *view.bag;
  const uint32_t* keys = view.keys();
  dispatch_dim(dim, [&](auto fixed) {
    const size_t d = fixed.get();
    for (size_t r = rows.begin; r < rows.end; ++r) {
      const Rows range = keys_of(bag, r);
      const float factor = bag_factor(bag, range, mean);
      float* to = out.data + (r - rows.begin) * out.stride;
      for (size_t k = range.begin; k < range.end; ++k) {
        const float* row = view.rows + size_t{keys[k]} * d;
        const float value = bag.values.empty() ? factor : factor * bag.values[k];
#pragma omp simd
        for (size_t j = 0; j < d; ++j) to[j] += value * row[j];
      }
    }
  });
}

void scatter_bag(const BagView& view, uint32_t dim, bool mean, Rows rows, ConstMatrix from,
                 KeyShare share) {
  const BagColumn& bag = *view.bag;
  const uint32_t* keys = view.keys();
  dispatch_dim(dim, [&](auto fixed) {
    const size_t d = fixed.get();
    for (size_t r = rows.begin; r < rows.end; ++r) {
      const Rows range = keys_of(bag, r);
      const float factor = bag_factor(bag, range, mean);
      const float* gradient = from.data + (r - rows.begin) * from.stride;
      for (size_t k = range.begin; k < range.end; ++k) {
        if (share.count != 1 && !share.owns(keys[k])) continue;
        float* to = view.gradient + size_t{keys[k]} * d;
        const float value = bag.values.empty() ? factor : factor * bag.values[k];
#pragma omp simd
        for (size_t j = 0; j < d; ++j) to[j] += value * gradient[j];
      }
    }
  });
}

void clear(Matrix x, size_t rows, size_t width) {
  for (size_t r = 0; r < rows; ++r) std::memset(x.data + r * x.stride, 0, width * sizeof(float));
}

}  // namespace

void pool_forward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                  Matrix out) {
  if (concat && std::all_of(bags.begin(), bags.end(), one_key_each)) {
    return copy_single_keys(bags, dim, rows, out);
  }
  if (!concat && dim > 1 && std::all_of(bags.begin(), bags.end(), one_key_each)) {
    return add_single_keys(bags, dim, rows, out);
  }
  if (concat) clear(out, rows.count(), bags.size() * dim);
  for (size_t i = 0; i < bags.size(); ++i) {
    const Matrix to{out.data + (concat ? i * dim : 0), out.stride};
    if (dim == 1) {
      add_scalar_bag(bags[i], mean, rows, to);
    } else {
      add_bag(bags[i], dim, mean, rows, to);
    }
  }
}

void pool_backward(std::span<const BagView> bags, uint32_t dim, bool concat, bool mean, Rows rows,
                   ConstMatrix out_gradient, KeyShare share) {
  if (concat && std::all_of(bags.begin(), bags.end(), one_key_each)) {
    if (share.count == 1) return scatter_single_keys<false>(bags, dim, rows, out_gradient, share);
    return scatter_single_keys<true>(bags, dim, rows, out_gradient, share);
  }
  if (!concat && dim > 1 && std::all_of(bags.begin(), bags.end(), one_key_each)) {
    // A row may be in several bags, so the order of summation must be the same for any share.
    if (share.count == 1)
      return scatter_to_single_keys<false>(bags, dim, rows, out_gradient, share);
    return scatter_to_single_keys<true>(bags, dim, rows, out_gradient, share);
  }
  for (size_t i = 0; i < bags.size(); ++i) {
    const ConstMatrix from{out_gradient.data + (concat ? i * dim : 0), out_gradient.stride};
    if (dim != 1) {
      scatter_bag(bags[i], dim, mean, rows, from, share);
    } else if (share.count == 1) {
      scatter_scalar_bag<false>(bags[i], mean, rows, from, share);
    } else {
      scatter_scalar_bag<true>(bags[i], mean, rows, from, share);
    }
  }
}

void add_rows(std::span<const uint32_t> keys, const float* rows, size_t dim, KeyShare share,
              float* gradient) {
  dispatch_dim(uint32_t(dim), [&](auto fixed) {
    const size_t d = fixed.get();
    for (size_t k = 0; k < keys.size(); ++k) {
      if (share.count != 1 && !share.owns(keys[k])) continue;
      float* to = gradient + size_t{keys[k]} * d;
#pragma omp simd
      for (size_t j = 0; j < d; ++j) to[j] += rows[k * d + j];
    }
  });
}

void copy(ConstMatrix from, Matrix to, size_t rows, size_t width, bool accumulate) {
  if (width == 1) {
    for (size_t r = 0; r < rows; ++r) {
      float& t = to.data[r * to.stride];
      t = from.data[r * from.stride] + (accumulate ? t : 0.0F);
    }
    return;
  }
  for (size_t r = 0; r < rows; ++r) {
    const float* f = from.data + r * from.stride;
    float* t = to.data + r * to.stride;
    if (accumulate) {
#pragma omp simd
      for (size_t j = 0; j < width; ++j) t[j] += f[j];
    } else {
      std::memcpy(t, f, width * sizeof(float));
    }
  }
}

void sum_rows(ConstMatrix x, size_t rows, size_t width, bool accumulate, float* sums) {
  if (!accumulate) std::fill_n(sums, width, 0.0F);
  if (width == 1) {
    float sum = 0;
    for (size_t r = 0; r < rows; ++r) sum += x.data[r * x.stride];
    sums[0] += sum;
    return;
  }
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x.data + r * x.stride;
#pragma omp simd
    for (size_t j = 0; j < width; ++j) sums[j] += row[j];
  }
}

void dot_rows(ConstMatrix x, size_t rows, size_t width, const float* w, float* y, size_t y_stride) {
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x.data + r * x.stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < width; ++j) sum += row[j] * w[j];
    y[r * y_stride] = sum;
  }
}

void weigh_rows(ConstMatrix x, size_t rows, size_t width, const float* d, size_t d_stride,
                bool accumulate, float* w_gradient) {
  if (!accumulate) std::fill_n(w_gradient, width, 0.0F);
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x.data + r * x.stride;
    const float factor = d[r * d_stride];
#pragma omp simd
    for (size_t j = 0; j < width; ++j) w_gradient[j] += factor * row[j];
  }
}

void outer_rows(const float* d, size_t d_stride, const float* w, size_t rows, size_t width,
                bool accumulate, Matrix x_gradient) {
  for (size_t r = 0; r < rows; ++r) {
    float* row = x_gradient.data + r * x_gradient.stride;
    const float factor = d[r * d_stride];
    if (accumulate) {
#pragma omp simd
      for (size_t j = 0; j < width; ++j) row[j] += factor * w[j];
    } else {
#pragma omp simd
      for (size_t j = 0; j < width; ++j) row[j] = factor * w[j];
    }
  }
}

}  // namespace downpour::model
