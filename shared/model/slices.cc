#include "shared/model/slices.h"

#include "shared/base/check.h"
#include "shared/model/negatives.h"

namespace downpour::model {
namespace {

/// Returns the row of each record among those of the slice.
const std::vector<float>& column_of(const Program& program, const Batch& batch, size_t slice) {
  return batch.floats[program.layout.floats.size() + slice].values;
}

}  // namespace

bool has_slices(const Program& program, const Batch& batch) {
  return !program.slice_rows.empty() &&
         read_columns(program, batch) >= program.layout.floats.size() + program.slice_rows.size();
}

size_t slice_count(const Program& program) {
  size_t rows = 0;
  for (const uint32_t of_slice : program.slice_rows) rows += of_slice;
  return rows * program.outputs.size();
}

void add_slices(const Program& program, const Batch& batch, size_t o, size_t begin,
                const LossChunk& chunk, std::vector<OutputSums>& sums) {
  const Output& output = program.outputs[o];
  const uint32_t width = targets_of(output, batch).width;
  std::vector<uint64_t> unused_counts(output.loss == Loss::kSoftmax ? output.width : 0);
  size_t first = 0;
  for (size_t s = 0; s < program.slice_rows.size(); first += program.slice_rows[s++]) {
    const std::vector<float>& column = column_of(program, batch, s);
    for (size_t r = 0; r < chunk.rows; r += chunk.group) {
      const auto row = size_t(column[begin + r]);
      DP_CHECK(row < program.slice_rows[s], s, row);
      LossChunk one = chunk;
      one.rows = chunk.group;
      one.x.data += r * chunk.x.stride;
      one.targets += r * width;
      if (one.weights != nullptr) one.weights += r;
      one.gradient = {};
      one.sums = &sums[(first + row) * program.outputs.size() + o];
      one.class_counts = unused_counts;
      loss_and_gradient(output.loss, one);
    }
  }
}

void rank_slices(const Program& program, const Batch& batch, size_t o, const float* logits,
                 AucHistogram& histogram, std::vector<OutputMetrics>& slices) {
  const Output& output = program.outputs[o];
  const std::vector<float>& labels = targets_of(output, batch).values;
  const float* const weights =
      output.weights == kNoIndex ? nullptr : batch.floats[output.weights].values.data();
  size_t row = 0;
  for (size_t s = 0; s < program.slice_rows.size(); ++s) {
    const std::vector<float>& column = column_of(program, batch, s);
    for (uint32_t value = 0; value < program.slice_rows[s]; ++value, ++row) {
      OutputMetrics& metrics = slices[row * program.outputs.size() + o];
      if (metrics.sums.weight == 0) continue;
      histogram.clear();
      for (size_t r = 0; r < batch.records; ++r) {
        const bool counts = weights == nullptr || weights[r] > 0.0F;
        if (column[r] == float(value) && counts) histogram.add(logits[r], labels[r]);
      }
      histogram.to_sparse(metrics.auc);
    }
  }
}

}  // namespace downpour::model
