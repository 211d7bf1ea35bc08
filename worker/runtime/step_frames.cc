#include "worker/runtime/step_frames.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace downpour::worker {
namespace {

// Returns where the rows of a run begin in the variable's own memory.
uint64_t floats_before(const TableSpec& table, const PullPlan& plan, TableId id,
                       uint32_t table_variable, uint32_t key_begin) {
  if (table.kind == TableKind::kEmbedding)
    return uint64_t(key_begin) * table.table_variables[table_variable].dim;
  return uint64_t(plan.dense_blocks[raw(id)][key_begin]) * kDenseBlockFloats;
}

// Calls `copy` for each copy between the frame of a message and the variables' own memory. Dense
// blocks are copied one by one, because a message may hold any of them.
template <typename CopyRun>
void for_each_copy(const std::vector<TableSpec>& tables, const std::vector<size_t>& first,
                   const PullPlan& plan, const PartMessage& message, CopyRun&& copy) {
  for_each_run(
      tables, plan, message,
      [&](TableId id, uint32_t m, uint64_t at, uint32_t begin, uint32_t count, uint64_t floats) {
        const TableSpec& table = tables[raw(id)];
        if (table.kind == TableKind::kEmbedding)
          return copy(first[raw(id)] + m, floats_before(table, plan, id, m, begin), at, floats);
        for (uint32_t k = begin; k < begin + count; ++k) {
          const uint32_t block = table.row_floats(m, plan.dense_blocks[raw(id)][k]);
          copy(first[raw(id)] + m, floats_before(table, plan, id, m, k), at, uint64_t(block));
          at += block;
        }
      });
}

/// Copies floats and returns whether all are finite. Looks at each part while the cache has it.
bool copy_finite(const float* from, uint64_t floats, float* to) {
  constexpr uint64_t kPart = kDenseBlockFloats;
  bool finite = true;
  for (uint64_t done = 0; done < floats; done += kPart) {
    const uint64_t part = std::min(floats - done, kPart);
    std::memcpy(to + done, from + done, part * sizeof(float));
    finite &= all_finite(to + done, part);
  }
  return finite;
}

}  // namespace

Frame make_frame(uint64_t bytes) {
  Frame frame;
  frame.floats = std::shared_ptr<float[]>(new float[bytes / sizeof(float) + 1]);
  frame.bytes = Bytes(std::shared_ptr<const void>(frame.floats, frame.floats.get()),
                      frame.floats.get(), bytes);
  return frame;
}

std::vector<size_t> first_variables(const std::vector<TableSpec>& tables) {
  std::vector<size_t> first;
  size_t v = 0;
  for (const TableSpec& table : tables) {
    first.push_back(v);
    v += table.table_variables.size();
  }
  first.push_back(v);
  return first;
}

std::vector<uint64_t> variable_floats(const std::vector<TableSpec>& tables, const Batch& batch) {
  std::vector<uint64_t> floats;
  for (size_t t = 0; t < tables.size(); ++t) {
    uint64_t keys = 0;
    for (const TableKeys& table : batch.tables)
      if (raw(table.table) == t) keys = table.keys.size();
    for (const VariableSpec& variable : tables[t].table_variables) {
      floats.push_back(tables[t].kind == TableKind::kEmbedding ? keys * variable.dim
                                                               : variable.elements());
    }
  }
  return floats;
}

void gather(const std::vector<TableSpec>& tables, const PullPlan& plan,
            std::span<const Bytes> values, std::span<float* const> variables) {
  const std::vector<size_t> first = first_variables(tables);
  for (size_t i = 0; i < plan.messages.size(); ++i) {
    for_each_copy(tables, first, plan, plan.messages[i],
                  [&](size_t v, uint64_t to, uint64_t at, uint64_t floats) {
                    std::memcpy(variables[v] + to, values[i].data() + at * sizeof(float),
                                floats * sizeof(float));
                  });
  }
}

bool scatter(const std::vector<TableSpec>& tables, const PullPlan& plan,
             std::span<const float* const> gradients, std::span<const Frame> frames) {
  const std::vector<size_t> first = first_variables(tables);
  bool finite = true;
  for (size_t i = 0; i < plan.messages.size(); ++i) {
    for_each_copy(tables, first, plan, plan.messages[i],
                  [&](size_t v, uint64_t from, uint64_t at, uint64_t floats) {
                    finite &= copy_finite(gradients[v] + from, floats, frames[i].floats.get() + at);
                  });
  }
  return finite;
}

bool all_finite(const float* values, size_t count) {
  // Finds the largest magnitude as an integer. A value that is not finite has all exponent bits
  // set.
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffU);
  }
  return largest < 0x7f800000U;
}

}  // namespace downpour::worker
