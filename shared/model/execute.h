// Execution: runs a chunk of records through a Program, forward and backward.
#pragma once

#include <span>

#include "shared/model/program.h"
#include "shared/model/variable_view.h"
#include "shared/model/workspace.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// A chunk of records during execution. Owns nothing; everything that it refers to must outlive it.
struct Chunk {
  const Program& program;
  const Batch& batch;
  std::span<const VariableView> variables;
  Arena& arena;
  // In the order of Program::keyed; an active one already holds its products.
  std::span<KeyedProduct> keyed;
  Rows rows;

  // Training only.
  bool training = false;
  uint64_t batch_seed = 0;  // a hash of the batch's id
  /// Gradients of the dense variables for the chunk's slot, at Variable::dense_offset. Null: write
  /// to the gradients of `variables`.
  float* dense_gradients = nullptr;
  /// True: set dense gradients. False: add to them.
  bool first_of_slot = true;
  /// Null: sum the gradients of embedding rows at once. Otherwise: keep what sum_saved() needs
  /// here.
  float* saved = nullptr;

  /// Returns the place of a value, or of its gradient, for this chunk.
  ConstMatrix value(ValueId id) const;
  Matrix gradient(ValueId id) const;
};

/// Returns `bags` with their rows and gradients. The views are stored in `arena` and
/// valid until the next call.
std::span<const BagView> bag_views(const Batch& batch, std::span<const VariableView> variables,
                                   std::span<const BagUse> bags, Arena& arena);

/// Allocates the arena's buffers for the program.
void prepare(const Program& program, Arena& arena);

/// Computes all values.
void run_forward(const Chunk& chunk);

/// Computes the gradients of all variables from the gradients of the outputs, which the losses
/// wrote.
void run_backward(const Chunk& chunk);

/// Sums the gradients of embedding rows from what run_backward() saved for the chunk's records.
/// Only keys of `share` are summed.
void sum_saved(const Chunk& chunk, KeyShare share);

}  // namespace downpour::model
