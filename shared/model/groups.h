// Groups: the records of an evaluation with the values of the field of eval.group_by.
#pragma once

#include <vector>

#include "shared/model/program.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// Returns true if the batch has the columns of data::with_groups().
bool has_groups(const Program& program, const Batch& batch);

/// Sets `grouped` to the values of wire::PredictReport for a batch of an evaluation. `logits[o]`
/// has those of all records of output `o`; null: the output has no ranking.
void add_groups(const Program& program, const Batch& batch, const std::vector<const float*>& logits,
                std::vector<float>& grouped);

}  // namespace downpour::model
