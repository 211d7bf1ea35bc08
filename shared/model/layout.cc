#include "shared/model/layout.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <variant>

namespace downpour::model {
namespace {

// Chunk: its values (512 KiB) and as many gradients fit into the L2 cache. For Wide & Deep this is
// 128 records, which was the fastest of 32, 64, 128 and 256 in one run each on a busy Xeon with 2
// MiB of L2. With fewer than 64 records, products become slower by more than the cache saves, so
// records of more than 2048 floats (DCN-V2 with 26 embeddings) may take up to four times as much.
constexpr uint64_t kChunkFloats = 128 * 1024, kChunkFloatsMost = 4 * kChunkFloats;
constexpr uint32_t kChunkRowsMin = 16, kChunkRowsGood = 64, kChunkRowsMax = 256;
// Slot: about a quarter of a millisecond of products, so that adding up the gradients of the slots
// costs only a few per cent.
constexpr uint64_t kSlotProducts = 16 << 20;
constexpr uint32_t kSlotRowsMin = 64, kSlotRowsMax = 512;

uint32_t clamp_rows(uint64_t rows, uint32_t least, uint32_t most) {
  return uint32_t(std::clamp<uint64_t>(std::bit_floor(rows), least, most));
}

void add_buffer(Program& program, Value& value) {
  const uint32_t stride = value.width < 16 ? value.width : (value.width + 15) / 16 * 16;
  value.buffer = uint32_t(program.buffers.size());
  value.column = 0;
  program.buffers.push_back({stride, program.row_floats});
  program.row_floats += stride;
}

bool only_fields(const Program& program, const std::vector<Part>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return program.values[part.value].float_index != kNoIndex;
  });
}

/// Returns a longer concatenation that contains all parts of `v` in order, or kNoIndex. Then the
/// same numbers are not copied twice: the numbers of a wide layer are also part of the deep layer's
/// input.
ValueId find_container(const std::vector<ValueUse>& uses, ValueId v, uint32_t& column) {
  const std::vector<Part>& wanted = uses[v].parts;
  for (ValueId w = 0; w < uses.size(); ++w) {
    const std::vector<Part>& parts = uses[w].parts;
    if (parts.size() <= wanted.size()) continue;
    const auto found = std::search(parts.begin(), parts.end(), wanted.begin(), wanted.end(),
                                   [](const Part& a, const Part& b) { return a.value == b.value; });
    if (found == parts.end()) continue;
    column = found->column;
    return w;
  }
  return kNoIndex;
}

/// Assigns a place to every value that is not read from the batch. A value whose only reader is a
/// concatenation is placed inside the concatenation.
void place_values(Program& program, const std::vector<ValueUse>& uses) {
  std::vector<ValueId> contained;
  for (ValueId v = ValueId(uses.size()); v-- > 0;) {  // a concatenation comes after its parts
    Value& value = program.values[v];
    if (value.float_index != kNoIndex) continue;
    const std::vector<Part>& parts = uses[v].parts;
    uint32_t column = 0;
    if (value.buffer == kNoIndex && !parts.empty() && only_fields(program, parts) &&
        find_container(uses, v, column) != kNoIndex) {
      contained.push_back(v);
      continue;
    }
    if (value.buffer == kNoIndex) add_buffer(program, value);
    for (const Part& part : parts) {
      Value& p = program.values[part.value];
      if (p.float_index != kNoIndex) {
        program.copies.push_back(
            {p.float_index, p.width, value.buffer, value.column + part.column});
      } else if (uses[part.value].uses == 1) {
        p.buffer = value.buffer;
        p.column = value.column + part.column;
      }
    }
  }
  // Longest first, because the container of a short list may itself be placed inside a longer one.
  std::sort(contained.begin(), contained.end(),
            [&](ValueId a, ValueId b) { return uses[a].parts.size() > uses[b].parts.size(); });
  for (const ValueId v : contained) {
    uint32_t column = 0;
    const Value& container = program.values[find_container(uses, v, column)];
    program.values[v].buffer = container.buffer;
    program.values[v].column = container.column + column;
  }
}

/// Keeps in each ConcatOp only the parts that must be copied. Removes a ConcatOp without such
/// parts.
void prune_concats(Program& program) {
  for (Op& op : program.ops) {
    auto* concat = std::get_if<ConcatOp>(&op);
    if (concat == nullptr) continue;
    const Value& out = program.values[concat->output];
    std::erase_if(concat->parts, [&](const Part& part) {
      const Value& p = program.values[part.value];
      return p.float_index != kNoIndex ||
             (p.buffer == out.buffer && p.column == out.column + part.column);
    });
  }
  std::erase_if(program.ops, [](const Op& op) {
    const auto* concat = std::get_if<ConcatOp>(&op);
    return concat != nullptr && concat->parts.empty();
  });
}

/// Finds the columns of `v` from the first to the last that needs a gradient.
void find_gradient_columns(const Program& program, const std::vector<ValueUse>& uses, ValueId v,
                           uint32_t& begin, uint32_t& end) {
  begin = end = 0;
  const Value& value = program.values[v];
  if (!value.needs_gradient) return;
  end = value.width;
  const std::vector<Part>& parts = uses[v].parts;
  if (parts.empty()) return;
  const auto needs = [&](const Part& p) { return program.values[p.value].needs_gradient; };
  const Part& first = *std::find_if(parts.begin(), parts.end(), needs);
  const Part& last = *std::find_if(parts.rbegin(), parts.rend(), needs);
  begin = first.column;
  end = last.column + program.values[last.value].width;
}

/// In backward order, the first writer of a gradient sets it, and the others add to it.
void order_gradients(Program& program, const std::vector<ValueUse>& uses) {
  std::vector<bool> written(program.values.size());
  const auto visit = [&](ValueId v, bool& accumulate) {
    accumulate = written[v];
    written[v] = true;
  };
  for (Output& output : program.outputs) visit(output.input, output.accumulate_gradient);
  for (size_t i = program.ops.size(); i-- > 0;) {
    std::visit(
        [&]<typename T>(T& op) {
          if constexpr (requires { op.parts; }) {
            for (Part& part : op.parts) visit(part.value, part.accumulate_gradient);
          } else if constexpr (requires { op.bags; }) {
            op.saved_column = program.saved_floats;
            program.saved_floats += program.values[op.output].width;
            if constexpr (std::is_same_v<T, FmOp>) program.saved_floats += op.dim;
          } else {
            if constexpr (std::is_same_v<T, DenseOp>) {
              find_gradient_columns(program, uses, op.input, op.gradient_begin, op.gradient_end);
            }
            visit(op.input, op.accumulate_gradient);
          }
        },
        program.ops[i]);
  }
}

/// Returns the first column of the output of `pool` in the input of `dense`. Returns kNoIndex if
/// `dense` does not read it or is not its only reader.
uint32_t column_for(const PoolOp& pool, const DenseOp& dense, const std::vector<ValueUse>& uses) {
  if (!pool.concat || uses[pool.output].uses != 1 || uses[dense.input].uses != 1) return kNoIndex;
  if (dense.input == pool.output) return 0;
  for (const Part& part : uses[dense.input].parts) {
    if (part.value == pool.output) return part.column;
  }
  return kNoIndex;
}

/// Assigns a KeyedInput to each dense layer of more than one column, for its widest embedding.
void find_keyed(Program& program, const std::vector<ValueUse>& uses) {
  for (uint32_t d = 0; d < program.ops.size(); ++d) {
    auto* dense = std::get_if<DenseOp>(&program.ops[d]);
    if (dense == nullptr || program.values[dense->output].width == 1) continue;
    KeyedInput widest{.pool = kNoIndex, .dense = d};
    uint32_t width = 0;
    for (uint32_t p = 0; p < d; ++p) {
      const auto* pool = std::get_if<PoolOp>(&program.ops[p]);
      if (pool == nullptr || program.values[pool->output].width <= width) continue;
      const uint32_t column = column_for(*pool, *dense, uses);
      if (column == kNoIndex) continue;
      widest.pool = p;
      widest.column = column;
      width = program.values[pool->output].width;
    }
    if (widest.pool == kNoIndex) continue;
    dense->keyed = std::get<PoolOp>(program.ops[widest.pool]).keyed =
        uint32_t(program.keyed.size());
    program.keyed.push_back(widest);
  }
}

}  // namespace

void lay_out(Program& program, const std::vector<ValueUse>& uses) {
  for (const ValueUse& use : uses) program.concatenated.push_back(use.parts);
  place_values(program, uses);
  prune_concats(program);
  order_gradients(program, uses);
  find_keyed(program, uses);
  const uint64_t row_floats = std::max<uint64_t>(1, program.row_floats);
  const uint64_t good = std::min<uint64_t>(kChunkRowsGood, kChunkFloatsMost / row_floats);
  program.chunk_rows =
      clamp_rows(std::max(kChunkFloats / row_floats, good), kChunkRowsMin, kChunkRowsMax);
  program.slot_rows = clamp_rows(kSlotProducts / std::max<uint64_t>(1, program.dense_floats),
                                 kSlotRowsMin, kSlotRowsMax);
  // A chunk holds all rows of a record.
  program.chunk_rows = std::max(program.chunk_rows, 1 + program.negatives.per_record);
  program.slot_rows = std::max(program.slot_rows, program.chunk_rows);
}

}  // namespace downpour::model
