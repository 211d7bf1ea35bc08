// Whether a batch that another process read is one that this plan makes, as far as can be seen.
#pragma once

#include "shared/base/result.h"
#include "shared/data/dataset.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// Checks what the model relies on: the batch's id and number of records, the columns of the
/// layout, and targets as their rules want them (a class indexes memory). Columns are whole in
/// themselves (wire::decode_batch). Error: kMalformed.
Result<void> check_batch(const ReadPlan& plan, BatchId expected, const Batch& batch);

}  // namespace downpour::data
