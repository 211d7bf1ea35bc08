#include "shared/model/groups.h"

#include "shared/model/negatives.h"

namespace downpour::model {
namespace {

/// Returns the number of the first of the two columns of the groups.
size_t first_column(const Program& program) {
  return program.layout.floats.size() + program.slice_rows.size();
}

/// Returns the label of a record for wire::PredictReport.
float label_of(const Output& output, const Batch& batch, size_t record) {
  const float* const weights =
      output.weights == kNoIndex ? nullptr : batch.floats[output.weights].values.data();
  if (weights != nullptr && !(weights[record] > 0.0F)) return -1.0F;
  return targets_of(output, batch).values[record] > 0.5F ? 1.0F : 0.0F;
}

}  // namespace

bool has_groups(const Program& program, const Batch& batch) {
  return program.grouped && read_columns(program, batch) >= first_column(program) + 2;
}

void add_groups(const Program& program, const Batch& batch, const std::vector<const float*>& logits,
                std::vector<float>& grouped) {
  const size_t first = first_column(program);
  grouped.clear();
  grouped.reserve(batch.records * (2 + 2 * logits.size()));
  for (size_t r = 0; r < batch.records; ++r) {
    grouped.push_back(batch.floats[first].values[r]);
    grouped.push_back(batch.floats[first + 1].values[r]);
    for (size_t o = 0; o < logits.size(); ++o) {
      grouped.push_back(logits[o] == nullptr ? 0.0F : logits[o][r]);
      grouped.push_back(logits[o] == nullptr ? -1.0F : label_of(program.outputs[o], batch, r));
    }
  }
}

}  // namespace downpour::model
