// Placement: which ps core owns which partition.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// Contiguous ranges of `partitions`, as even as can be, one a core. With more cores than
/// partitions the last ones get none.
std::vector<std::vector<PartitionId>> even_ranges(uint32_t partitions, uint32_t cores);

/// A checkpoint's images by partition; none stay none. Error kBadData: they do not name each
/// partition exactly once.
Result<std::vector<wire::ImageRef>> order_images(std::vector<wire::ImageRef> images,
                                                 uint32_t partitions);

/// Puts the images that all owners saved in order. Error kMalformed: a partition missing, twice or
/// not its sender's, or a file name that is no plain name.
Result<std::vector<wire::ImageRef>> join_images(
    const wire::View& view, const std::vector<std::vector<wire::ImageRef>>& by_owner);

}  // namespace downpour::chief
