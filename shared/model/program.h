// Program: a job's layers compiled to values in buffers and operations on them. Plain data:
// compile() builds it, execute.h runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shared/job/job.h"
#include "shared/job/losses.h"
#include "shared/model/activation.h"
#include "shared/model/combine.h"
#include "shared/model/local_training.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"

namespace downpour::model {

constexpr uint32_t kNoIndex = UINT32_MAX;

/// An activation: [rows of a chunk, width]. Its gradient has the same place in a second set of
/// buffers.
struct Value {
  uint32_t width = 0;
  bool needs_gradient = false;
  uint32_t float_index = kNoIndex;  // column of the batch to read in place, or kNoIndex
  uint32_t buffer = kNoIndex;       // otherwise the buffer that holds the value, from `column` on
  uint32_t column = 0;
};

/// A buffer of rows that are `stride` floats apart. From 16 columns on, the stride is a multiple of
/// 16, so that embedding rows are aligned to cache lines.
struct Buffer {
  uint32_t stride = 0;
  uint64_t floats_before = 0;  // floats per record in all buffers before this one
};

/// A copy of numbers of the batch into a buffer, made before the first operation.
struct FloatCopy {
  uint32_t float_index = 0;
  uint32_t width = 0;
  uint32_t buffer = 0;
  uint32_t column = 0;
};

struct BagUse {
  uint32_t bag = 0;       // index into InputLayout::bags
  uint32_t variable = 0;  // flat index of the variable
};

/// Pools embedding rows. With `concat`, bag i fills columns [i * dim, ...). Otherwise all bags are
/// summed, and `bias` is added.
struct PoolOp {
  std::vector<BagUse> bags;
  uint32_t dim = 1;
  bool mean = false;
  bool concat = true;
  bool accumulate = false;  // adds to the result of a DenseOp (linear layer on numbers and keys)
  uint32_t bias = kNoIndex;
  ValueId output = 0;
  /// Column of its output's gradient among the saved gradients of all records (several threads).
  uint64_t saved_column = 0;
  uint32_t keyed = kNoIndex;  // index into Program::keyed; then only that layer reads the output
};

/// Interactions of a factorization machine, over the keys of all bags (interactions.h). The output
/// has one column, or with `by_column` the `dim` columns of which it is the sum.
struct FmOp {
  std::vector<BagUse> bags;
  uint32_t dim = 1;
  bool by_column = false;
  ValueId sums = 0;  // sum of value * row of each record; the backward pass reads it again
  ValueId output = 0;
  /// First column among the saved values of all records (several threads): the sums, then the
  /// gradient of the output.
  uint64_t saved_column = 0;
};

/// output = activation(input * kernel + bias)
struct DenseOp {
  ValueId input = 0;
  ValueId output = 0;
  uint32_t kernel = 0;
  uint32_t bias = kNoIndex;
  Activation activation = Activation::kNone;
  uint32_t gradient_begin = 0, gradient_end = 0;  // columns of the input that need a gradient
  bool accumulate_gradient = false;  // a later consumer has already written the input's gradient
  /// Index into Program::keyed; then a KeyedProduct may compute part of the product.
  uint32_t keyed = kNoIndex;
};

struct ActivationOp {
  ValueId input = 0;
  ValueId output = 0;
  Activation activation = Activation::kRelu;
  bool accumulate_gradient = false;
};

/// Layer normalization (norm.h).
struct NormOp {
  ValueId input = 0;
  ValueId output = 0;
  uint32_t scale = 0, shift = 0;  // variables
  bool accumulate_gradient = false;
};

/// The inner products of all pairs of the input's vectors of `dim` columns (dot.h).
struct DotOp {
  ValueId input = 0;
  ValueId output = 0;
  uint32_t dim = 1;
  bool accumulate_gradient = false;
};

/// Inverted dropout (dropout.h) of a training step. Other passes copy the input.
struct DropoutOp {
  ValueId input = 0;
  ValueId output = 0;
  float rate = 0.0F;
  uint64_t stream = 0;  // differs between the operations of a model and between seeds
  bool accumulate_gradient = false;
};

/// A PoolOp whose output only one DenseOp reads. A KeyedProduct can replace the pooling and that
/// part of the layer's product.
struct KeyedInput {
  uint32_t pool = 0;    // index into Program::ops
  uint32_t dense = 0;   // index into Program::ops
  uint32_t column = 0;  // first column of the pool's output in the layer's input
};

using Op = std::variant<PoolOp, FmOp, DenseOp, ActivationOp, DropoutOp, DotOp, NormOp, AddOp,
                        ConcatOp, SumOp, PiecewiseOp, CrossOp>;

struct Output {
  ValueId input = 0;
  Loss loss = Loss::kLogistic;
  uint32_t width = 1;
  // Column of the batch's floats; kNoIndex: the labels that rows_of() appends (negatives.h).
  uint32_t target = 0;
  uint32_t weights = kNoIndex;  // column of the batch's floats, or kNoIndex
  float weight = 1.0F;
  float offset = 0.0F, scale = 1.0F;  // OutputSpec
  float option = 0.0F;                // delta or quantile of OutputSpec
  float smoothing = 0.0F;             // label_smoothing of OutputSpec
  uint32_t top_k = 1;                 // softmax: eval.top_k
  bool accumulate_gradient = false;   // an earlier output has already written the value's gradient
};

/// How the negatives of a batch are made (negatives.h).
struct Negatives {
  uint32_t per_record = 0;  // 0: none
  uint64_t seed = 0;
  // Most keys or numbers of a field in the rows of a batch. A batch with more gets fewer negatives.
  uint64_t values_max = uint64_t{1} << 28;
  // By column of the layout: whether it describes the item.
  std::vector<bool> floats, bags;

  bool given() const { return per_record > 0; }
};

/// One variable, in the order of Graph::tables() and their variables.
struct Variable {
  uint32_t table = 0;
  bool dense = false;
  uint64_t floats = 0;        // dense: number of elements; embedding: dim
  uint64_t dense_offset = 0;  // dense: offset in the concatenated gradients of all dense variables
};

struct Program {
  std::vector<TableSpec> tables;  // embedding tables first, then dense tables
  InputLayout layout;
  uint32_t input_floats = 0;  // number of inputs at the start of layout.floats
  std::vector<OutputSpec> output_specs;

  std::vector<Value> values;
  /// By value: the inputs of a concatenation; empty for other values. `ops` has only those of its
  /// parts that must be copied.
  std::vector<std::vector<Part>> concatenated;
  std::vector<Buffer> buffers;
  std::vector<FloatCopy> copies;
  std::vector<Op> ops;  // in forward order
  std::vector<KeyedInput> keyed;
  std::vector<Output> outputs;
  // The rows of each of eval.slices. An evaluation's batch has their columns after those of the
  // layout.
  std::vector<uint32_t> slice_rows;
  Negatives negatives;
  bool grouped = false;  // eval.group_by: the batch then also has its two columns
  std::vector<Variable> variables;
  bool mean = true;  // the reduction is "mean"
  bool raw = false;  // predictions are the values before the outputs' functions
  ClipSpec clip;
  // Of the tables whose gradients a ps applies when they arrive (RowGroup::kAsync): whether they
  // are divided by the weight of the batch, and the limit of their elements; 0: no limit.
  bool async_mean = false;
  float async_clip = 0;
  std::optional<LocalTraining> local;  // only in mode "local"
  // A program gives gradients that are divided by the weight of the batch, but the ps divide the
  // sum of a step: multiply them by it.
  bool weighs_custom = false;
  // The order of a batch's unique keys may change the bits of sums over keys (KeyedProduct).
  bool any_key_order = true;

  uint64_t row_floats = 0;    // floats per record in all buffers
  uint64_t dense_floats = 0;  // floats of all dense variables
  uint64_t saved_floats = 0;  // floats per record that PoolOps and FmOps save
  // Records per chunk: forward and backward run on a chunk while it is in the cache.
  uint32_t chunk_rows = 128;
  /// Records per slot: the chunks of a slot add to one set of dense gradients. The number is fixed,
  /// so that the bits do not depend on the number of threads.
  uint32_t slot_rows = 512;
};

}  // namespace downpour::model
