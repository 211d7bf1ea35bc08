// Workspace: the memory of one compute thread between batches. Grows to the largest batch seen,
// then stays.
#pragma once

#include <vector>

#include "shared/metrics/auc.h"
#include "shared/model/float_buffer.h"
#include "shared/model/graph.h"
#include "shared/model/kernels.h"
#include "shared/model/keyed_product.h"

namespace downpour::model {

/// What one OpenMP thread needs for its chunk.
struct Arena {
  FloatBuffer values;     // chunk_rows * row_floats
  FloatBuffer gradients;  // likewise
  FloatBuffer scratch;    // chunk_rows * widest output
  std::vector<BagView> bags;
};

/// Metric sums of one slot of records, by output.
struct SlotSums {
  std::vector<OutputSums> sums;
  std::vector<std::vector<uint64_t>> class_counts;
};

class Workspace final {
 public:
  std::vector<Arena> arenas;        // by OpenMP thread
  std::vector<SlotSums> slots;      // by slot
  std::vector<KeyedProduct> keyed;  // by Program::keyed
  FloatBuffer dense_gradients;      // slots after the first: [slot - 1][dense_floats]
  FloatBuffer saved_gradients;      // several threads: [records][saved_floats]
  std::vector<FloatBuffer> ranked;  // by output: logits for the ranking
  std::vector<float> scales;        // of the gradient, by output
  AucHistogram histogram;
};

}  // namespace downpour::model
