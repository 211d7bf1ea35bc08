// Execution: one chunk of records through a Program, forward and backward.
#pragma once

#include <span>

#include "shared/model/graph.h"
#include "shared/model/program.h"
#include "shared/model/workspace.h"

namespace downpour::model {

/// A chunk on its way. Owns nothing; everything outlives it.
struct Chunk {
  const Program& program;
  const Batch& batch;
  std::span<const VariableView> variables;
  Arena& arena;
  std::span<KeyedProduct> keyed;  // by Program::keyed; those that are active have their products
  Rows rows;

  // Training only.
  float* dense_gradients =
      nullptr;                // of this slot, at Variable::dense_offset; null: into the views' own
  bool first_of_slot = true;  // sets dense gradients; later chunks add
  float* saved = nullptr;     // null: rows' gradients are summed at once; else kept for sum_saved()

  /// A value's place for this chunk.
  ConstMatrix value(ValueId id) const;
  Matrix gradient(ValueId id) const;
};

/// The bags of `op` with their rows and gradients; they lie in `arena` until the next call.
std::span<const BagView> bag_views(const Batch& batch, std::span<const VariableView> variables,
                                   const PoolOp& op, Arena& arena);

/// Sizes the arena for the program.
void prepare(const Program& program, Arena& arena);

/// Computes all values.
void run_forward(const Chunk& chunk);

/// From the outputs' gradients (written by the losses) to those of all variables.
void run_backward(const Chunk& chunk);

/// Sums the gradients of embedding rows from what run_backward saved of records [rows); keys of
/// `share` only.
void sum_saved(const Chunk& chunk, KeyShare share);

}  // namespace downpour::model
