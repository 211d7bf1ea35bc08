// Building on: an image that holds only what was touched since another, and that other, make a
// whole one.
#pragma once

#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/tensor/variables.h"

namespace downpour::checkpoint {

/// Puts what `next` holds over `image`, the base of `next`: it is then whole, as it was when `next`
/// was made. Keys of both ascend. On an error (rows of another length) `image` is of no use.
Result<void> build_on(PartitionImage& image, PartitionImage&& next,
                      const std::vector<TableSpec>& tables);

}  // namespace downpour::checkpoint
