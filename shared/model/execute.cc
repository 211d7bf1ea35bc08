#include "shared/model/execute.h"

#include <algorithm>

#include "shared/base/hash.h"
#include "shared/model/activation.h"
#include "shared/model/dot.h"
#include "shared/model/dropout.h"
#include "shared/model/interactions.h"
#include "shared/model/norm.h"

namespace downpour::model {
namespace {

Matrix buffer_place(const Program& program, FloatBuffer& floats, uint32_t buffer, uint32_t column) {
  const Buffer& b = program.buffers[buffer];
  return {floats.data() + b.floats_before * program.chunk_rows + column, b.stride};
}

ConstMatrix float_column(const Chunk& c, uint32_t index) {
  const FloatColumn& column = c.batch.floats[index];
  return {column.values.data() + c.rows.begin * column.width, column.width};
}

Matrix output_place(const Chunk& c, ValueId id) {
  const Value& v = c.program.values[id];
  return buffer_place(c.program, c.arena.values, v.buffer, v.column);
}

const Value& value_of(const Chunk& c, ValueId id) { return c.program.values[id]; }

const float* bias_of(const Chunk& c, uint32_t variable) {
  return variable == kNoIndex ? nullptr : c.variables[variable].values;
}

float* dense_gradient(const Chunk& c, uint32_t variable) {
  if (c.dense_gradients == nullptr) return c.variables[variable].gradient;
  return c.dense_gradients + c.program.variables[variable].dense_offset;
}

std::span<const BagView> bag_views(const Chunk& c, std::span<const BagUse> bags) {
  return bag_views(c.batch, c.variables, bags, c.arena);
}

/// Returns the place of saved column `column` for the chunk's records.
Matrix saved_place(const Chunk& c, uint64_t column) {
  const size_t stride = c.program.saved_floats;
  return {c.saved + c.rows.begin * stride + column, stride};
}

bool is_active(const Chunk& c, uint32_t keyed) {
  return keyed != kNoIndex && c.keyed[keyed].active();
}

/// Columns [begin, end) of a layer's input.
struct Columns {
  size_t begin = 0, end = 0;
  size_t count() const { return end - begin; }
};

/// Calls f with the columns of `all` that no active KeyedProduct computes.
template <typename F>
void for_columns(const Chunk& c, const DenseOp& op, Columns all, const F& f) {
  if (!is_active(c, op.keyed)) return f(all);
  const KeyedInput& keyed = c.program.keyed[op.keyed];
  const size_t end =
      keyed.column + value_of(c, std::get<PoolOp>(c.program.ops[keyed.pool]).output).width;
  for (const Columns part : {Columns{all.begin, std::min<size_t>(all.end, keyed.column)},
                             Columns{std::max(all.begin, end), all.end}}) {
    if (part.begin < part.end) f(part);
  }
}

// Forward pass, one overload per operation.

void forward(const Chunk& c, const PoolOp& op) {
  if (is_active(c, op.keyed)) return;
  const Matrix out = output_place(c, op.output);
  const size_t rows = c.rows.count();
  if (!op.concat && !op.accumulate) {
    const float* bias = bias_of(c, op.bias);
    for (size_t r = 0; r < rows; ++r) {
      for (uint32_t j = 0; j < op.dim; ++j) {
        out.data[r * out.stride + j] = bias != nullptr ? bias[j] : 0.0F;
      }
    }
  }
  pool_forward(bag_views(c, op.bags), op.dim, op.concat, op.mean, c.rows, out);
}

void forward(const Chunk& c, const FmOp& op) {
  interactions_forward(bag_views(c, op.bags), op.dim, op.by_column, c.rows,
                       output_place(c, op.sums), output_place(c, op.output));
}

void forward(const Chunk& c, const DenseOp& op) {
  const ConstMatrix in = c.value(op.input);
  const Matrix out = output_place(c, op.output);
  const size_t rows = c.rows.count();
  const size_t k = value_of(c, op.input).width;
  const size_t n = value_of(c, op.output).width;
  const float* kernel = c.variables[op.kernel].values;
  if (n == 1) {
    dot_rows(in, rows, k, kernel, out.data, out.stride);
  } else {
    const bool keyed = is_active(c, op.keyed);
    if (keyed) copy(c.keyed[op.keyed].layer(c.rows.begin), out, rows, n, false);
    for_columns(c, op, {0, k}, [&](Columns from) {
      gemm(Transpose::kNo, Transpose::kNo, rows, n, from.count(), {in.data + from.begin, in.stride},
           {kernel + from.begin * n, n}, keyed, out);
    });
  }
  add_bias_activate(out, rows, n, bias_of(c, op.bias), op.activation);
}

void forward(const Chunk& c, const ActivationOp& op) {
  activate(c.value(op.input), output_place(c, op.output), c.rows.count(),
           value_of(c, op.input).width, op.activation);
}

DropoutMask mask_of(const Chunk& c, const DropoutOp& op) {
  return {.rate = op.rate, .seed = hash_combine(op.stream, c.batch_seed), .record = c.rows.begin};
}

void forward(const Chunk& c, const DropoutOp& op) {
  const Matrix out = output_place(c, op.output);
  const size_t width = value_of(c, op.input).width;
  if (!c.training) return copy(c.value(op.input), out, c.rows.count(), width, false);
  drop(c.value(op.input), out, c.rows.count(), width, mask_of(c, op), false);
}

void forward(const Chunk& c, const DotOp& op) {
  dot_forward(c.value(op.input), c.rows.count(), value_of(c, op.input).width / op.dim, op.dim,
              output_place(c, op.output));
}

void forward(const Chunk& c, const NormOp& op) {
  normalize(c.value(op.input), c.rows.count(), value_of(c, op.input).width,
            c.variables[op.scale].values, c.variables[op.shift].values, output_place(c, op.output));
}

/// An operation of combine.h.
template <typename Op>
concept Combination = requires(const Op& op) {
  op.parts;
};

std::span<const PartView> part_views(const Chunk& c, std::span<const Part> parts) {
  c.arena.parts.clear();
  for (const Part& part : parts) {
    c.arena.parts.push_back({c.value(part.value), value_of(c, part.value).width, part.column});
  }
  return c.arena.parts;
}

template <Combination Op>
void forward(const Chunk& c, const Op& op) {
  op.forward(part_views(c, op.parts), c.rows.count(), output_place(c, op.output));
}

// Backward pass. The gradient of the output is complete. Each overload sets, or adds to, the
// gradients of the inputs and variables.

void backward(const Chunk& c, const PoolOp& op) {
  if (is_active(c, op.keyed)) return;
  const Matrix d = c.gradient(op.output);
  const size_t rows = c.rows.count();
  if (op.bias != kNoIndex) {
    sum_rows(d, rows, op.dim, !c.first_of_slot, dense_gradient(c, op.bias));
  }
  if (c.saved == nullptr) {
    pool_backward(bag_views(c, op.bags), op.dim, op.concat, op.mean, c.rows, d, {});
    return;
  }
  copy(d, saved_place(c, op.saved_column), rows, value_of(c, op.output).width, false);
}

void backward(const Chunk& c, const FmOp& op) {
  const Matrix d = c.gradient(op.output);
  const ConstMatrix sums = c.value(op.sums);
  if (c.saved == nullptr) {
    interactions_backward(bag_views(c, op.bags), op.dim, op.by_column, c.rows, sums, d, {});
    return;
  }
  copy(sums, saved_place(c, op.saved_column), c.rows.count(), op.dim, false);
  copy(d, saved_place(c, op.saved_column + op.dim), c.rows.count(), value_of(c, op.output).width,
       false);
}

void backward(const Chunk& c, const DenseOp& op) {
  const Matrix d = c.gradient(op.output);
  const ConstMatrix in = c.value(op.input);
  const size_t rows = c.rows.count();
  const size_t k = value_of(c, op.input).width;
  const size_t n = value_of(c, op.output).width;
  if (op.activation != Activation::kNone) {
    activate_backward(d, c.value(op.output), d, rows, n, op.activation, false);
  }
  const bool add = !c.first_of_slot;
  if (op.bias != kNoIndex) sum_rows(d, rows, n, add, dense_gradient(c, op.bias));
  float* kernel_gradient = dense_gradient(c, op.kernel);
  if (n == 1) {
    weigh_rows(in, rows, k, d.data, d.stride, add, kernel_gradient);
  } else {
    if (is_active(c, op.keyed)) copy(d, c.keyed[op.keyed].layer(c.rows.begin), rows, n, false);
    for_columns(c, op, {0, k}, [&](Columns to) {
      gemm(Transpose::kYes, Transpose::kNo, to.count(), n, rows, {in.data + to.begin, in.stride}, d,
           add, {kernel_gradient + to.begin * n, n});
    });
  }
  if (op.gradient_begin == op.gradient_end) return;
  const Matrix in_gradient = c.gradient(op.input);
  for_columns(c, op, {op.gradient_begin, op.gradient_end}, [&](Columns to) {
    const Matrix gradient{in_gradient.data + to.begin, in_gradient.stride};
    const float* kernel = c.variables[op.kernel].values + to.begin * n;
    if (n == 1) {
      outer_rows(d.data, d.stride, kernel, rows, to.count(), op.accumulate_gradient, gradient);
    } else {
      gemm(Transpose::kNo, Transpose::kYes, rows, to.count(), n, d, {kernel, n},
           op.accumulate_gradient, gradient);
    }
  });
}

void backward(const Chunk& c, const ActivationOp& op) {
  if (!value_of(c, op.input).needs_gradient) return;
  const ValueId at = info_of(op.activation).needs_input ? op.input : op.output;
  activate_backward(c.gradient(op.output), c.value(at), c.gradient(op.input), c.rows.count(),
                    value_of(c, op.input).width, op.activation, op.accumulate_gradient);
}

void backward(const Chunk& c, const DropoutOp& op) {
  if (!value_of(c, op.input).needs_gradient) return;
  drop(c.gradient(op.output), c.gradient(op.input), c.rows.count(), value_of(c, op.input).width,
       mask_of(c, op), op.accumulate_gradient);
}

void backward(const Chunk& c, const DotOp& op) {
  if (!value_of(c, op.input).needs_gradient) return;
  dot_backward(c.value(op.input), c.gradient(op.output), c.rows.count(),
               value_of(c, op.input).width / op.dim, op.dim, op.accumulate_gradient,
               c.gradient(op.input));
}

void backward(const Chunk& c, const NormOp& op) {
  normalize_backward(c.value(op.input), c.gradient(op.output), c.rows.count(),
                     value_of(c, op.input).width, c.variables[op.scale].values, !c.first_of_slot,
                     dense_gradient(c, op.scale), dense_gradient(c, op.shift),
                     op.accumulate_gradient,
                     value_of(c, op.input).needs_gradient ? c.gradient(op.input) : Matrix{});
}

template <Combination Op>
void backward(const Chunk& c, const Op& op) {
  const std::span<const PartView> inputs = part_views(c, op.parts);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Part& part = op.parts[i];
    if (!value_of(c, part.value).needs_gradient) continue;
    op.backward(inputs, i, c.rows.count(), c.gradient(op.output), c.gradient(part.value),
                part.accumulate_gradient);
  }
}

// Second part of the backward pass with several threads: reads what backward() saved. One overload
// per operation that reads embedding rows.

void sum_saved(const Chunk& c, const PoolOp& op, KeyShare share) {
  if (is_active(c, op.keyed)) return;
  pool_backward(bag_views(c, op.bags), op.dim, op.concat, op.mean, c.rows,
                saved_place(c, op.saved_column), share);
}

void sum_saved(const Chunk& c, const FmOp& op, KeyShare share) {
  interactions_backward(bag_views(c, op.bags), op.dim, op.by_column, c.rows,
                        saved_place(c, op.saved_column), saved_place(c, op.saved_column + op.dim),
                        share);
}

ValueId output_of(const Op& op) {
  return std::visit([](const auto& o) { return o.output; }, op);
}

}  // namespace

ConstMatrix Chunk::value(ValueId id) const {
  const Value& v = program.values[id];
  if (v.float_index != kNoIndex) return float_column(*this, v.float_index);
  return buffer_place(program, arena.values, v.buffer, v.column);
}

Matrix Chunk::gradient(ValueId id) const {
  const Value& v = program.values[id];
  return buffer_place(program, arena.gradients, v.buffer, v.column);
}

std::span<const BagView> bag_views(const Batch& batch, std::span<const VariableView> variables,
                                   std::span<const BagUse> bags, Arena& arena) {
  arena.bags.clear();
  for (const BagUse& use : bags) {
    const VariableView& variable = variables[use.variable];
    arena.bags.push_back({&batch.bags[use.bag], variable.values, variable.gradient, nullptr});
  }
  return arena.bags;
}

void prepare(const Program& program, Arena& arena) {
  const size_t rows = program.chunk_rows;
  arena.values.ensure(rows * program.row_floats);
  arena.gradients.ensure(rows * program.row_floats);
  size_t width = 1;
  for (const Output& output : program.outputs) width = std::max<size_t>(width, output.width);
  arena.scratch.ensure(rows * width);
}

void run_forward(const Chunk& chunk) {
  for (const FloatCopy& f : chunk.program.copies) {
    copy(float_column(chunk, f.float_index),
         buffer_place(chunk.program, chunk.arena.values, f.buffer, f.column), chunk.rows.count(),
         f.width, false);
  }
  for (const Op& op : chunk.program.ops) {
    std::visit([&](const auto& o) { forward(chunk, o); }, op);
  }
}

void run_backward(const Chunk& chunk) {
  const std::vector<Op>& ops = chunk.program.ops;
  for (size_t i = ops.size(); i-- > 0;) {
    if (!value_of(chunk, output_of(ops[i])).needs_gradient) continue;
    std::visit([&](const auto& o) { backward(chunk, o); }, ops[i]);
  }
}

void sum_saved(const Chunk& chunk, KeyShare share) {
  const std::vector<Op>& ops = chunk.program.ops;
  for (size_t i = ops.size(); i-- > 0;) {
    std::visit(
        [&](const auto& op) {
          if constexpr (requires { op.bags; }) sum_saved(chunk, op, share);
        },
        ops[i]);
  }
}

}  // namespace downpour::model
