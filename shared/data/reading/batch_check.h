// Batch check: checks whether a batch from another process can be one that this plan produces.
#pragma once

#include "shared/base/result.h"
#include "shared/data/reading/read_plan.h"
#include "shared/tensor/batch.h"

namespace downpour::data {

/// Checks everything that the model relies on: the batch's id, its number of records, the columns
/// of the layout, and the values of targets (a class is used as an index into memory).
/// wire::decode_batch has already checked that each column is consistent in itself. Error:
/// kMalformed.
Result<void> check_batch(const ReadPlan& plan, BatchId expected, const Batch& batch);

}  // namespace downpour::data
