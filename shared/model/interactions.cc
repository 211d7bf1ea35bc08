#include "shared/model/interactions.h"

#include <cstring>
#include <type_traits>

#include "shared/model/pack.h"

namespace downpour::model {
namespace {

/// The keys of a block of bags with one key per record, each with the value 1.
struct SingleKeys {
  BagBlock block;

  /// Calls f(rows, gradient, key, value) for the keys of a record.
  template <typename F>
  void visit(size_t record, const F& f) const {
    for (size_t i = 0; i < block.count; ++i) {
      f(block.rows[i], block.gradients[i], block.keys[i][record], 1.0F);
    }
  }
};

/// The keys of one bag with any number of keys per record.
struct ManyKeys {
  const BagView& view;
  const uint32_t* keys = view.keys();

  template <typename F>
  void visit(size_t record, const F& f) const {
    const Rows range = keys_of(*view.bag, record);
    for (size_t k = range.begin; k < range.end; ++k) f(view.rows, view.gradient, keys[k], 1.0F);
  }
};

/// The same with values.
struct WeightedKeys {
  const BagView& view;
  const uint32_t* keys = view.keys();
  const float* values = view.bag->values.data();

  template <typename F>
  void visit(size_t record, const F& f) const {
    const Rows range = keys_of(*view.bag, record);
    for (size_t k = range.begin; k < range.end; ++k) {
      f(view.rows, view.gradient, keys[k], values[k]);
    }
  }
};

/// Calls f with the keys of all bags in order. Adjacent bags with one key per record form blocks.
template <typename F>
void for_key_groups(std::span<const BagView> bags, const F& f) {
  for (size_t first = 0, count = 0; first < bags.size(); first += count) {
    const BagView& view = bags[first];
    count = 1;
    if (!view.bag->values.empty()) {
      f(WeightedKeys{view});
    } else if (!one_key_each(view)) {
      f(ManyKeys{view});
    } else {
      while (count < kBagBlock && first + count < bags.size() && one_key_each(bags[first + count]))
        ++count;
      f(SingleKeys{BagBlock(bags.subspan(first, count))});
    }
  }
}

template <typename P>
float sum_of(const typename P::Vector (&products)[P::kVectors]) {
  float floats[P::kWidth];
  std::memcpy(floats, products, sizeof(floats));
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t j = 0; j < P::kWidth; ++j) sum += floats[j];
  return sum;
}

template <bool kByColumn, typename Keys>
void add_interactions(const Keys& keys, uint32_t dim, Rows rows, Matrix sums, Matrix out) {
  for_packs(dim, [&]<typename P>(P, uint32_t column) {
    for (size_t r = rows.begin; r < rows.end; ++r) {
      float* const to = sums.data + (r - rows.begin) * sums.stride + column;
      typename P::Vector sum[P::kVectors], products[P::kVectors] = {};
      for (size_t v = 0; v < P::kVectors; ++v) sum[v] = P::at(to, v);
      keys.visit(r, [&](const float* table, float*, uint32_t key, float value) {
        const float* const row = table + size_t{key} * dim + column;
        for (size_t v = 0; v < P::kVectors; ++v) {
          const typename P::Vector x = value * P::at(row, v);
          products[v] += x * sum[v];
          sum[v] += x;
        }
      });
      for (size_t v = 0; v < P::kVectors; ++v) P::at(to, v) = sum[v];
      float* const o = out.data + (r - rows.begin) * out.stride;
      if constexpr (kByColumn) {
        for (size_t v = 0; v < P::kVectors; ++v) P::at(o + column, v) += products[v];
      } else {
        *o += sum_of<P>(products);
      }
    }
  });
}

template <bool kByColumn, bool kShared, typename Keys>
void scatter_interactions(const Keys& keys, uint32_t dim, Rows rows, ConstMatrix sums,
                          ConstMatrix out_gradient, KeyShare share) {
  for_packs(dim, [&]<typename P>(P, uint32_t column) {
    for (size_t r = rows.begin; r < rows.end; ++r) {
      const float* const from = sums.data + (r - rows.begin) * sums.stride + column;
      const float* const d = out_gradient.data + (r - rows.begin) * out_gradient.stride;
      typename P::Vector sum[P::kVectors];
      for (size_t v = 0; v < P::kVectors; ++v) sum[v] = P::at(from, v);
      keys.visit(r, [&](const float* table, float* gradient, uint32_t key, float value) {
        if (kShared && !share.owns(key)) return;
        const size_t place = size_t{key} * dim + column;
        for (size_t v = 0; v < P::kVectors; ++v) {
          const typename P::Vector others = sum[v] - value * P::at(table + place, v);
          if constexpr (kByColumn) {
            P::at(gradient + place, v) += value * P::at(d + column, v) * others;
          } else {
            P::at(gradient + place, v) += value * *d * others;
          }
        }
      });
    }
  });
}

}  // namespace

void interactions_forward(std::span<const BagView> bags, uint32_t dim, bool by_column, Rows rows,
                          Matrix sums, Matrix out) {
  for (size_t r = 0; r < rows.count(); ++r) {
    std::memset(sums.data + r * sums.stride, 0, dim * sizeof(float));
    std::memset(out.data + r * out.stride, 0, (by_column ? dim : 1) * sizeof(float));
  }
  for_key_groups(bags, [&](const auto& keys) {
    if (by_column) {
      add_interactions<true>(keys, dim, rows, sums, out);
    } else {
      add_interactions<false>(keys, dim, rows, sums, out);
    }
  });
}

void interactions_backward(std::span<const BagView> bags, uint32_t dim, bool by_column, Rows rows,
                           ConstMatrix sums, ConstMatrix out_gradient, KeyShare share) {
  for_key_groups(bags, [&](const auto& keys) {
    const auto scatter = [&]<bool kByColumn>(std::bool_constant<kByColumn>) {
      if (share.count == 1) {
        scatter_interactions<kByColumn, false>(keys, dim, rows, sums, out_gradient, share);
      } else {
        scatter_interactions<kByColumn, true>(keys, dim, rows, sums, out_gradient, share);
      }
    };
    if (by_column) return scatter(std::true_type{});
    scatter(std::false_type{});
  });
}

}  // namespace downpour::model
