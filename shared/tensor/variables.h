// What a model's variables are: tables of rows, their members, initializers and optimizers. Plain
// data that the ps, the worker and a checkpoint agree upon.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/ids.h"

namespace downpour {

enum class OptimizerType : uint8_t { kSgd, kMomentum, kAdagrad, kAdam, kFtrl };

/// As job files and people write them.
inline constexpr std::array<std::pair<std::string_view, OptimizerType>, 5> kOptimizerNames{
    {{"sgd", OptimizerType::kSgd},
     {"momentum", OptimizerType::kMomentum},
     {"adagrad", OptimizerType::kAdagrad},
     {"adam", OptimizerType::kAdam},
     {"ftrl", OptimizerType::kFtrl}}};
constexpr std::string_view name_of(OptimizerType type) {
  for (const auto& [name, named] : kOptimizerNames) {
    if (named == type) return name;
  }
  return "?";
}

/// An optimizer with all its settings; those of other types are ignored.
struct OptimizerSpec {
  OptimizerType type = OptimizerType::kAdam;
  float learning_rate = 0.001F;
  float momentum = 0.9F;             // momentum
  bool nesterov = false;             // momentum
  float initial_accumulator = 0.1F;  // adagrad: > 0; ftrl: >= 0 (n at the start)
  float epsilon = 1e-7F;             // adagrad, adam
  float beta1 = 0.9F;                // adam
  float beta2 = 0.999F;              // adam
  float l1 = 0.0F;                   // ftrl
  float l2 = 0.0F;                   // ftrl
  float beta = 1.0F;                 // ftrl: McMahan 2013's beta
  auto operator<=>(const OptimizerSpec&) const = default;
};

enum class InitType : uint8_t { kZero, kUniform, kNormal };

/// How an element that was never written reads: a function of (seed, variable, key, column) alone.
/// kUniform: in [-scale, scale); kNormal: standard deviation `scale`, truncated at two of them.
struct InitSpec {
  InitType type = InitType::kZero;
  float scale = 0.0F;
  auto operator<=>(const InitSpec&) const = default;
};

/// A named parameter. In an embedding table: `dim` floats a row. Dense: `shape`, row-major.
struct VariableSpec {
  std::string name;
  uint32_t dim = 0;             // embedding: floats a row
  std::vector<uint32_t> shape;  // dense only
  InitSpec init;
  OptimizerSpec optimizer;
  bool operator==(const VariableSpec&) const = default;

  /// Floats of a dense variable.
  uint64_t elements() const {
    uint64_t product = 1;
    for (const uint32_t d : shape) product *= d;
    return product;
  }
};

enum class TableKind : uint8_t { kEmbedding, kDense };

/// Floats in a block of a dense variable: block i holds elements [i * kDenseBlockFloats, ...), the
/// last one fewer.
constexpr uint32_t kDenseBlockFloats = 4096;

/// Rows found by one look-up. An embedding table maps a uint64 key to one row of each member
/// (members that are always used with the same keys share one index: a wide weight beside an
/// embedding). A dense table has one member; its keys are block indices 0 .. block_count() - 1.
struct TableSpec {
  std::string name;
  TableKind kind = TableKind::kEmbedding;
  std::vector<VariableSpec> table_variables;
  bool operator==(const TableSpec&) const = default;

  uint32_t block_count() const {
    return uint32_t((table_variables[0].elements() + kDenseBlockFloats - 1) / kDenseBlockFloats);
  }
  /// Floats of member `m` under `key`, as they travel and as they are stored.
  uint32_t row_floats(size_t m, uint64_t key) const {
    if (kind == TableKind::kEmbedding) return table_variables[m].dim;
    const uint64_t begin = key * kDenseBlockFloats;
    const uint64_t left = table_variables[0].elements() - begin;
    return uint32_t(left < kDenseBlockFloats ? left : kDenseBlockFloats);
  }
};

}  // namespace downpour
