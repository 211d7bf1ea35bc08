// BagView and Rows: what the kernels that read embedding rows get. BagBlock: bags in blocks whose
// pointers stay in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/tensor/batch.h"

namespace downpour::model {

/// Records [begin, end) of a batch.
struct Rows {
  size_t begin = 0;
  size_t end = 0;
  size_t count() const { return end - begin; }
};

/// One bag of an operation for one step: its keys, and the memory of its rows and their gradients
/// ([unique keys, dim]).
struct BagView {
  const BagColumn* bag = nullptr;
  const float* rows = nullptr;
  float* gradient = nullptr;
  const uint32_t* places = nullptr;  // row of each key; null: the keys themselves are the rows

  const uint32_t* keys() const { return places != nullptr ? places : bag->keys.data(); }
};

/// Bags with one key per record and without values are processed in blocks of this many. The
/// pointers of a block and one row of `out`, which is written from left to right, fit into the L1
/// cache.
constexpr size_t kBagBlock = 32;

inline bool one_key_each(const BagView& view) {
  return view.bag->offsets.empty() && view.bag->values.empty();
}

/// Returns the range of a record's keys in `bag`.
inline Rows keys_of(const BagColumn& bag, size_t record) {
  if (bag.offsets.empty()) return {record, record + 1};
  return {bag.offsets[record], bag.offsets[record + 1]};
}

struct BagBlock {
  std::array<const uint32_t*, kBagBlock> keys;
  std::array<const float*, kBagBlock> rows;
  std::array<float*, kBagBlock> gradients;
  size_t count = 0;

  explicit BagBlock(std::span<const BagView> bags) : count(bags.size()) {
    for (size_t i = 0; i < count; ++i) {
      keys[i] = bags[i].keys();
      rows[i] = bags[i].rows;
      gradients[i] = bags[i].gradient;
    }
  }
};

template <typename F>
void for_blocks(std::span<const BagView> bags, const F& f) {
  for (size_t first = 0; first < bags.size(); first += kBagBlock) {
    f(BagBlock(bags.subspan(first, std::min(kBagBlock, bags.size() - first))), first);
  }
}

}  // namespace downpour::model
