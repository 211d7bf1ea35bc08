// Workspace: the memory of one compute thread, kept between batches. It grows to the largest batch
// and never shrinks.
#pragma once

#include <vector>

#include "shared/metrics/auc.h"
#include "shared/metrics/sums.h"
#include "shared/model/combine.h"
#include "shared/model/float_buffer.h"
#include "shared/model/kernels.h"
#include "shared/model/keyed_product.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// The buffers of one OpenMP thread for its current chunk.
struct Arena {
  FloatBuffer values;     // chunk_rows * row_floats
  FloatBuffer gradients;  // chunk_rows * row_floats
  FloatBuffer scratch;    // chunk_rows * widest output
  std::vector<BagView> bags;
  std::vector<PartView> parts;  // inputs of the current combination
};

/// Metric sums of one slot of records, per output.
struct SlotSums {
  std::vector<OutputSums> sums;
  std::vector<std::vector<uint64_t>> class_counts;
  std::vector<OutputSums> slices;  // for each row of the slices: all outputs
};

class Workspace final {
 public:
  std::vector<Arena> arenas;        // one per OpenMP thread
  std::vector<SlotSums> slots;      // one per slot
  std::vector<KeyedProduct> keyed;  // in the order of Program::keyed
  FloatBuffer dense_gradients;      // slots after the first: [slot - 1][dense_floats]
  FloatBuffer saved_gradients;      // with several threads: [records][saved_floats]
  std::vector<FloatBuffer> ranked;  // per output: the logits for the AUC histogram
  std::vector<float> scales;        // per output: the factor of the gradient
  AucHistogram histogram;
  Batch rows;  // the batch with its negatives
};

}  // namespace downpour::model
