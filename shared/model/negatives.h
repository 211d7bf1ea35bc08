// Negatives: the rows of a batch of implicit feedback. Each record is a positive. Its negatives are
// copies of it with the item of another record of the batch (data.negatives).
#pragma once

#include <cstdint>

#include "shared/job/job.h"
#include "shared/model/program.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// Returns the negatives of a job, for the columns of a layout. A cross of fields of the item also
/// describes the item.
Negatives negatives_of(const Job& job, const InputLayout& layout);

/// The batch that a step computes. The rows of a record follow each other: first its own, then
/// those of its negatives.
struct BatchRows {
  const Batch& batch;
  uint32_t group = 1;  // rows of a record
};

/// Returns `batch` if there are no negatives. Otherwise makes the rows of its records in `memory`:
/// - The columns of the item are those of another record of the batch; all others, also of weights,
///   slices and groups, are those of the record. The unique keys of the tables stay the same.
/// - A last column of floats has the labels: 1 for a record, 0 for a negative.
/// The other record is drawn uniformly, independently for each negative, by a hash of the job's
/// seed, the batch id and the record's place in the batch. Without `training`, the hash leaves out
/// the epoch, so every evaluation has the same negatives. A record that is alone in its batch has
/// no negatives.
BatchRows rows_of(const Negatives& negatives, const Batch& batch, bool training, Batch& memory);

/// Returns the targets of an output, or the labels of rows_of().
inline const FloatColumn& targets_of(const Output& output, const Batch& batch) {
  return output.target == kNoIndex ? batch.floats.back() : batch.floats[output.target];
}

/// Returns the number of the batch's columns of floats without the labels of rows_of().
inline size_t read_columns(const Program& program, const Batch& batch) {
  return batch.floats.size() - (program.negatives.given() ? 1 : 0);
}

/// Removes the negatives from predictions [records * group, width].
void keep_first_rows(uint32_t group, uint32_t width, std::vector<float>& predictions);

}  // namespace downpour::model
