#include "shared/model/dot.h"

#include <array>
#include <cstring>

namespace downpour::model {
namespace {

/// Columns that are transposed together. One load then reads a column of several vectors, and
/// nothing is summed across the lanes of a register.
constexpr size_t kColumns = 4;

/// Copies columns [first, first + kColumns) of the vectors to `to`, column by column. Columns from
/// `dim` on are 0.
void transpose(const float* vectors, size_t count, size_t dim, size_t first, float* to) {
  for (size_t c = 0; c < kColumns; ++c) {
    for (size_t j = 0; j < count; ++j) {
      to[c * count + j] = first + c < dim ? vectors[j * dim + first + c] : 0.0F;
    }
  }
}

/// y += a * x for `count` floats.
inline void add_scaled(float a, const float* x, size_t count, float* y) {
#pragma omp simd
  for (size_t k = 0; k < count; ++k) y[k] += a * x[k];
}

/// The backward pass of one record. kDim is the dim as a constant, or 0.
template <size_t kDim>
void add_gradients(const float* x, const float* d, size_t vectors, size_t runtime_dim, float* to) {
  const size_t dim = kDim != 0 ? kDim : runtime_dim;
  for (size_t i = 1; i < vectors; ++i) {
    for (size_t j = 0; j < i; ++j, ++d) {
      add_scaled(*d, x + j * dim, dim, to + i * dim);
      add_scaled(*d, x + i * dim, dim, to + j * dim);
    }
  }
}

}  // namespace

void dot_forward(ConstMatrix x, size_t rows, size_t vectors, uint32_t dim, Matrix out) {
  std::array<float, kColumns * kVectorsMax> columns;
  for (size_t r = 0; r < rows; ++r) {
    const float* v = x.data + r * x.stride;
    float* const row = out.data + r * out.stride;
    std::memset(row, 0, pairs_of(vectors) * sizeof(float));
    for (size_t first = 0; first < dim; first += kColumns) {
      transpose(v, vectors, dim, first, columns.data());
      const float* const a = columns.data();
      const float* const b = a + vectors;
      const float* const c = b + vectors;
      const float* const e = c + vectors;
      float* to = row;
      for (size_t i = 1; i < vectors; ++i) {
        const float ai = a[i], bi = b[i], ci = c[i], ei = e[i];
#pragma omp simd
        for (size_t j = 0; j < i; ++j) to[j] += ai * a[j] + bi * b[j] + ci * c[j] + ei * e[j];
        to += i;
      }
    }
  }
}

void dot_backward(ConstMatrix x, ConstMatrix out_gradient, size_t rows, size_t vectors,
                  uint32_t dim, bool accumulate, Matrix x_gradient) {
  for (size_t r = 0; r < rows; ++r) {
    float* to = x_gradient.data + r * x_gradient.stride;
    const float* v = x.data + r * x.stride;
    const float* d = out_gradient.data + r * out_gradient.stride;
    if (!accumulate) std::memset(to, 0, vectors * dim * sizeof(float));
    switch (dim) {
      case 8:
        add_gradients<8>(v, d, vectors, dim, to);
        break;
      case 16:
        add_gradients<16>(v, d, vectors, dim, to);
        break;
      case 32:
        add_gradients<32>(v, d, vectors, dim, to);
        break;
      default:
        add_gradients<0>(v, d, vectors, dim, to);
    }
  }
}

}  // namespace downpour::model
