// build_on(): merges an incremental image into the image that it builds on.
#pragma once

#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/tensor/variables.h"

namespace downpour::checkpoint {

/// Merges `next` into `image`, which is the full image that `next` builds on. Then `image` is a
/// full image of the state saved in `next`. The keys of both must ascend. After an error (rows of
/// another length) `image` is unusable.
Result<void> build_on(PartitionImage& image, PartitionImage&& next,
                      const std::vector<TableSpec>& tables);

}  // namespace downpour::checkpoint
