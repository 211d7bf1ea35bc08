// Variables: tables of rows, their variables and initializers. Plain data on which ps, worker and
// checkpoint agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/hash.h"
#include "shared/base/ids.h"
#include "shared/tensor/optimizers.h"

namespace downpour {

enum class InitType : uint8_t { kZero, kUniform, kNormal };

/// The value of an element that was never written. It depends only on (seed, variable, key,
/// column). kUniform: in [-scale, scale). kNormal: standard deviation `scale`, truncated at two
/// standard deviations.
struct InitSpec {
  InitType type = InitType::kZero;
  float scale = 0.0F;
  auto operator<=>(const InitSpec&) const = default;
};

/// A named parameter: `dim` floats per row (embedding) or `shape`, row-major (dense).
struct VariableSpec {
  std::string name;
  uint32_t dim = 0;             // embedding only: floats per row
  std::vector<uint32_t> shape;  // dense only
  InitSpec init;
  OptimizerSpec optimizer;
  bool operator==(const VariableSpec&) const = default;

  /// Returns the number of floats of a dense variable.
  uint64_t elements() const {
    uint64_t product = 1;
    for (const uint32_t d : shape) product *= d;
    return product;
  }
};

enum class TableKind : uint8_t { kEmbedding, kDense };

/// Floats per block of a dense variable: block i holds the elements from i * kDenseBlockFloats on.
/// The last block may be shorter.
constexpr uint32_t kDenseBlockFloats = 4096;

/// Variables that share an index. An embedding table maps a uint64 key to one row of each of its
/// variables. Variables that are always used with the same keys belong to one table, for example a
/// wide weight and an embedding. A dense table has one variable; its keys are block indices 0 ..
/// block_count() - 1.
struct TableSpec {
  std::string name;
  TableKind kind = TableKind::kEmbedding;
  std::vector<VariableSpec> table_variables;
  RowGroup group = RowGroup::kAll;  // follows from the job; manifests do not have it
  bool operator==(const TableSpec&) const = default;

  uint32_t block_count() const {
    return uint32_t((table_variables[0].elements() + kDenseBlockFloats - 1) / kDenseBlockFloats);
  }
  /// Returns the floats of variable `m` under `key`, in messages and in storage.
  uint32_t row_floats(size_t m, uint64_t key) const {
    if (kind == TableKind::kEmbedding) return table_variables[m].dim;
    const uint64_t begin = key * kDenseBlockFloats;
    const uint64_t left = table_variables[0].elements() - begin;
    return uint32_t(left < kDenseBlockFloats ? left : kDenseBlockFloats);
  }
};

}  // namespace downpour
