// Slices: metric sums of the records of a batch, divided by the values of the fields of
// eval.slices.
#pragma once

#include <cstddef>
#include <vector>

#include "shared/metrics/auc.h"
#include "shared/metrics/sums.h"
#include "shared/model/losses.h"
#include "shared/model/program.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// Returns true if the batch has the columns of the slices (data::with_slices()).
bool has_slices(const Program& program, const Batch& batch);

/// Returns the number of rows of all slices, times the outputs. Row r of output o has the index
/// r * outputs + o.
size_t slice_count(const Program& program);

/// Adds the losses of a chunk of output `o` to the sums of its records' rows. The chunk starts at
/// record `begin`. Writes no gradient and no class counts.
void add_slices(const Program& program, const Batch& batch, size_t o, size_t begin,
                const LossChunk& chunk, std::vector<OutputSums>& sums);

/// Fills in the AUC buckets of output `o` for each row. `logits` are those of all records.
/// `histogram` is scratch memory.
void rank_slices(const Program& program, const Batch& batch, size_t o, const float* logits,
                 AucHistogram& histogram, std::vector<OutputMetrics>& slices);

}  // namespace downpour::model
