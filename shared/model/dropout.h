// Dropout: sets a random share of the elements to 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/model/gemm.h"

namespace downpour::model {

/// Which elements a dropout keeps. Whether it keeps an element is a function of the seed, the
/// record and the column, so the number of threads and the sizes of chunks do not change it.
struct DropoutMask {
  float rate = 0.0F;    // share of the elements that are set to 0, in [0, 1)
  uint64_t seed = 0;    // of the operation and the batch
  uint64_t record = 0;  // number of the first row within the batch
};

/// to (+)= from / (1 - rate) where the mask keeps the element, and 0 elsewhere. The backward pass
/// is the same function of the gradient. `to` may be `from`.
/// Numerics: float32; the share of an element is exact to 2^-32. Runs on the calling thread.
/// Source: Srivastava et al., "Dropout", JMLR 15, 2014, in the inverted form, which needs no change
///   for predictions.
void drop(ConstMatrix from, Matrix to, size_t rows, size_t width, DropoutMask mask,
          bool accumulate);

}  // namespace downpour::model
