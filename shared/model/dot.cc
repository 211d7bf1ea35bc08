#include "shared/model/dot.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/model/pack.h"

namespace downpour::model {
namespace {

constexpr size_t kLanes = kRegisterFloats;
using LanePack = Pack<kLanes>;
using Lanes = LanePack::Vector;

/// Vectors whose results stay in registers together, so that what is loaded is used several times.
constexpr size_t kVectorsAtOnce = 4;
/// Floats of transposed columns. With kVectorsMax vectors they are kLanes columns or more.
constexpr size_t kColumnFloats = 16 * kVectorsMax;

/// Returns the number of pairs before those of vector i, which are with vectors 0 to i - 1.
constexpr size_t pairs_before(size_t i) { return i * (i - 1) / 2; }

/// Exchanges the off-diagonal blocks of kStep x kStep floats between two rows.
template <size_t kStep, size_t... kLane>
void exchange(Lanes& a, Lanes& b, std::index_sequence<kLane...>) {
  const Lanes first =
      __builtin_shufflevector(a, b, ((kLane & kStep) != 0 ? kLanes + kLane - kStep : kLane)...);
  b = __builtin_shufflevector(a, b, ((kLane & kStep) != 0 ? kLanes + kLane : kLane + kStep)...);
  a = first;
}

/// Transposes kLanes rows in registers (Eklundh, "A Fast Computer Method for Matrix Transposing",
/// 1972).
template <size_t kStep = 1>
void transpose(Lanes (&rows)[kLanes]) {
  if constexpr (kStep < kLanes) {
#pragma GCC unroll 16
    for (size_t k = 0; k < kLanes; ++k) {
      if ((k & kStep) == 0)
        exchange<kStep>(rows[k], rows[k + kStep], std::make_index_sequence<kLanes>{});
    }
    transpose<2 * kStep>(rows);
  }
}

/// Copies `count` columns of the vectors to `to`, column by column. `stride` is the number of
/// vectors, rounded up to whole registers. The floats behind a column have any value.
void copy_columns(const float* vectors, size_t vector_count, size_t dim, size_t count,
                  size_t stride, float* to) {
  size_t c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    for (size_t first = 0; first < stride; first += kLanes) {
      Lanes rows[kLanes];
#pragma GCC unroll 16
      for (size_t k = 0; k < kLanes; ++k)
        rows[k] = LanePack::at(vectors + std::min(first + k, vector_count - 1) * dim + c, 0);
      transpose(rows);
#pragma GCC unroll 16
      for (size_t k = 0; k < kLanes; ++k) LanePack::at(to + (c + k) * stride + first, 0) = rows[k];
    }
  }
  for (; c < count; ++c) {
    for (size_t j = 0; j < stride; ++j)
      to[c * stride + j] = vectors[std::min(j, vector_count - 1) * dim + c];
  }
}

/// Columns of the vectors of a record, transposed.
struct Transposed {
  const float* vectors;  // the first column of the first vector
  size_t dim;
  const float* floats;  // [count, stride]
  size_t count, stride;
};

/// Multiplies vectors [first, first + kCount) by the vectors before them. Writes the products of
/// vectors from `wanted` on, or adds to them. In ascending order of the vectors, since what is
/// written behind the pairs of one vector is replaced by those of the next.
template <size_t kCount>
void multiply(const Transposed& columns, size_t first, size_t wanted, size_t pairs, bool add,
              float* out) {
  const float* const rows = columns.vectors + first * columns.dim;
  const size_t last = first + kCount - 1;
  for (size_t at = (last + kLanes - 1) / kLanes * kLanes; at > 0;) {
    at -= kLanes;
    Lanes sums[kCount] = {};
    for (size_t c = 0; c < columns.count; ++c) {
      const Lanes others = LanePack::at(columns.floats + c * columns.stride + at, 0);
      for (size_t r = 0; r < kCount; ++r) sums[r] += rows[r * columns.dim + c] * others;
    }
    for (size_t r = wanted - first; r < kCount; ++r) {
      const size_t i = first + r;
      if (i <= at) continue;
      float* const to = out + pairs_before(i) + at;
      if (!add && pairs_before(i) + at + kLanes <= pairs) {
        LanePack::at(to, 0) = sums[r];
        continue;
      }
      float products[kLanes];
      std::memcpy(products, &sums[r], sizeof(products));
      for (size_t k = 0; k < std::min(kLanes, i - at); ++k)
        to[k] = products[k] + (add ? to[k] : 0.0F);
    }
  }
}

/// Sets or adds to the gradients of vectors [first, first + kCount), from `wanted` on, in the
/// columns of a pack.
template <typename P, size_t kCount>
void sum_gradients(const float* x, const float* d, size_t vectors, size_t dim, size_t first,
                   size_t wanted, bool add, float* to) {
  using Vector = typename P::Vector;
  Vector sums[kCount][P::kVectors] = {};
  const auto take = [&](size_t j, const auto& factor_of) {
    Vector other[P::kVectors];
    for (size_t v = 0; v < P::kVectors; ++v) other[v] = P::at(x + j * dim, v);
    for (size_t r = 0; r < kCount; ++r) {
      const float factor = factor_of(r);
      for (size_t v = 0; v < P::kVectors; ++v) sums[r][v] += factor * other[v];
    }
  };
  for (size_t j = 0; j < first; ++j)
    take(j, [&](size_t r) { return d[pairs_before(first + r) + j]; });
  for (size_t q = 0; q < kCount; ++q) {
    take(first + q, [&](size_t r) {
      if (r == q) return 0.0F;
      return d[pairs_before(first + std::max(r, q)) + first + std::min(r, q)];
    });
  }
  for (size_t j = first + kCount; j < vectors; ++j)
    take(j, [&](size_t r) { return d[pairs_before(j) + first + r]; });
  for (size_t r = wanted - first; r < kCount; ++r) {
    float* const place = to + (first + r) * dim;
    for (size_t v = 0; v < P::kVectors; ++v)
      P::at(place, v) = add ? P::at(place, v) + sums[r][v] : sums[r][v];
  }
}

/// Calls visit(count, first, wanted) for groups of vectors in ascending order. `count` is a
/// compile-time constant. A group may begin with vectors of the one before: `wanted` is its first
/// new one.
template <size_t kAtOnce, typename F>
void for_vectors(size_t vectors, const F& visit) {
  const std::integral_constant<size_t, kAtOnce> many;
  if (vectors < kAtOnce) {
    const std::integral_constant<size_t, 1> one;
    for (size_t i = 0; i < vectors; ++i) visit(one, i, i);
    return;
  }
  for (size_t i = 0; i < vectors; i += kAtOnce) visit(many, std::min(i, vectors - kAtOnce), i);
}

}  // namespace

void dot_forward(ConstMatrix x, size_t rows, size_t vectors, uint32_t dim, Matrix out) {
  alignas(64) float floats[kColumnFloats];
  const size_t stride = (vectors + kLanes - 1) / kLanes * kLanes;
  const size_t columns_most = kColumnFloats / stride / kLanes * kLanes;
  for (size_t r = 0; r < rows; ++r) {
    float* const to = out.data + r * out.stride;
    for (size_t first = 0; first < dim; first += columns_most) {
      const float* const from = x.data + r * x.stride + first;
      const size_t count = std::min<size_t>(columns_most, dim - first);
      copy_columns(from, vectors, dim, count, stride, floats);
      const Transposed columns{from, dim, floats, count, stride};
      for_vectors<kVectorsAtOnce>(vectors, [&](auto at_once, size_t begin, size_t wanted) {
        multiply<at_once>(columns, begin, wanted, pairs_of(vectors), first > 0, to);
      });
    }
  }
}

void dot_backward(ConstMatrix x, ConstMatrix out_gradient, size_t rows, size_t vectors,
                  uint32_t dim, bool accumulate, Matrix x_gradient) {
  for (size_t r = 0; r < rows; ++r) {
    const float* const v = x.data + r * x.stride;
    const float* const d = out_gradient.data + r * out_gradient.stride;
    float* const to = x_gradient.data + r * x_gradient.stride;
    for_packs(dim, [&]<typename P>(P, uint32_t column) {
      constexpr size_t kAtOnce = P::kVectors > 2 ? kVectorsAtOnce / 2 : kVectorsAtOnce;
      for_vectors<kAtOnce>(vectors, [&](auto at_once, size_t first, size_t wanted) {
        sum_gradients<P, at_once>(v + column, d, vectors, dim, first, wanted, accumulate,
                                  to + column);
      });
    });
  }
}

}  // namespace downpour::model
