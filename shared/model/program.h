// Program: a job's layers compiled to values in buffers and operations on them. Plain data;
// compile.h makes it, execute.h runs it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "shared/job/job.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"

namespace downpour::model {

using ValueId = uint32_t;
constexpr uint32_t kNoIndex = UINT32_MAX;

enum class Activation : uint8_t { kNone, kRelu, kSigmoid };
enum class Loss : uint8_t { kLogistic, kSoftmax, kSquared };

/// An activation: [rows of a chunk, width]. Its gradient lies at the same place in a second set of
/// buffers.
struct Value {
  uint32_t width = 0;
  bool needs_gradient = false;
  uint32_t float_index = kNoIndex;  // not kNoIndex: read in place from this column of the batch
  uint32_t buffer = kNoIndex;       // else: a range of columns of a buffer
  uint32_t column = 0;
};

/// Rows lie `stride` floats apart: a multiple of 16 from 16 columns on, so that rows of embeddings
/// keep to cache lines.
struct Buffer {
  uint32_t stride = 0;
  uint64_t floats_before = 0;  // of the buffers before it, a row
};

/// Numbers of the batch that are copied into a buffer before the first operation.
struct FloatCopy {
  uint32_t float_index = 0;
  uint32_t width = 0;
  uint32_t buffer = 0;
  uint32_t column = 0;
};

struct BagUse {
  uint32_t bag = 0;       // InputLayout::bags
  uint32_t variable = 0;  // flat index
};

/// Pools rows of embeddings. kConcat: bag i fills columns [i * dim, ...). kAdd: all bags are
/// summed, with `bias`.
struct PoolOp {
  std::vector<BagUse> bags;
  uint32_t dim = 1;
  bool mean = false;
  bool concat = true;
  bool accumulate = false;  // adds to what a DenseOp put there (linear on numbers and keys)
  uint32_t bias = kNoIndex;
  ValueId output = 0;
  uint64_t saved_column =
      0;  // of its output's gradient, where that is kept for all records (several threads)
  uint32_t keyed = kNoIndex;  // into Program::keyed: only that layer reads the output
};

/// output = activation(input kernel + bias)
struct DenseOp {
  ValueId input = 0;
  ValueId output = 0;
  uint32_t kernel = 0;
  uint32_t bias = kNoIndex;
  Activation activation = Activation::kNone;
  uint32_t gradient_begin = 0, gradient_end = 0;  // columns of the input that need a gradient
  bool accumulate_gradient = false;  // a later consumer has written the input's gradient already
  uint32_t keyed = kNoIndex;         // into Program::keyed: some of the input comes by key
};

struct ActivationOp {
  ValueId input = 0;
  ValueId output = 0;
  Activation activation = Activation::kRelu;
  bool accumulate_gradient = false;
};

/// A part of a sum or of a concatenation.
struct Part {
  ValueId value = 0;
  uint32_t column = 0;  // concat: where in the output
  bool accumulate_gradient = false;
};
struct AddOp {
  std::vector<Part> parts;
  ValueId output = 0;
};
/// Copies those parts that do not lie in the output's buffer already.
struct ConcatOp {
  std::vector<Part> parts;
  ValueId output = 0;
};

/// A PoolOp whose output only one DenseOp reads: what a KeyedProduct can do instead of both.
struct KeyedInput {
  uint32_t pool = 0;    // into Program::ops
  uint32_t dense = 0;   // likewise
  uint32_t column = 0;  // of the layer's input, where the pool's output begins
};

using Op = std::variant<PoolOp, DenseOp, ActivationOp, AddOp, ConcatOp>;

struct Output {
  ValueId input = 0;
  Loss loss = Loss::kLogistic;
  uint32_t width = 1;
  uint32_t target = 0;          // column of the batch's floats
  uint32_t weights = kNoIndex;  // likewise
  float weight = 1.0F;
  bool accumulate_gradient = false;  // another output has written the value's gradient already
};

/// One variable, in the order of Graph::tables() and their members.
struct Variable {
  uint32_t table = 0;
  bool dense = false;
  uint64_t floats = 0;        // dense: elements; embedding: dim
  uint64_t dense_offset = 0;  // dense: where in one row of all dense gradients
};

struct Program {
  std::vector<TableSpec> tables;  // embedding tables, then dense ones
  InputLayout layout;
  uint32_t input_floats = 0;  // the first so many of layout.floats are inputs
  std::vector<OutputSpec> output_specs;

  std::vector<Value> values;
  std::vector<Buffer> buffers;
  std::vector<FloatCopy> copies;
  std::vector<Op> ops;  // in the order of forward
  std::vector<KeyedInput> keyed;
  std::vector<Output> outputs;
  std::vector<Variable> variables;
  bool mean = true;  // reduction

  uint64_t row_floats = 0;    // of all buffers
  uint64_t dense_floats = 0;  // of all dense variables
  uint64_t saved_floats = 0;  // gradients of all PoolOps' outputs, a record
  uint32_t chunk_rows = 128;  // go through forward and backward while in cache
  uint32_t slot_rows =
      512;  // sum dense gradients together: fixed, so bits do not depend on threads
};

}  // namespace downpour::model
