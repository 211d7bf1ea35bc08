// Workspace: the memory of one compute thread between batches. Grows to the largest batch seen,
// then stays.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "shared/metrics/auc.h"
#include "shared/model/graph.h"
#include "shared/model/kernels.h"

namespace downpour::model {

/// Floats on a cache line's boundary, not initialised, kept until more are wanted.
class FloatBuffer final {
 public:
  float* data() { return floats_.get(); }
  /// Contents are lost when it grows.
  float* ensure(size_t count) {
    if (count > count_) {
      floats_.reset(static_cast<float*>(operator new(count * sizeof(float), kLine)));
      count_ = count;
    }
    return floats_.get();
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(float* p) const { operator delete(p, kLine); }
  };
  std::unique_ptr<float, Free> floats_;
  size_t count_ = 0;
};

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
  FloatBuffer dense_gradients;      // slots after the first: [slot - 1][dense_floats]
  FloatBuffer saved_gradients;      // several threads: [records][saved_floats]
  std::vector<FloatBuffer> ranked;  // by output: logits for the ranking
  std::vector<float> scales;        // of the gradient, by output
  AucHistogram histogram;
};

}  // namespace downpour::model
