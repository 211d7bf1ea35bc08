// Placement: which ps core owns which partition.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

/// A ps core that lives, as far as moving partitions goes.
struct CoreLoad {
  uint32_t partitions = 0;
  bool leaving = false;  // it is to hold none
  bool takes = true;     // it may be given more now
};
/// The next step towards an even spread: so many partitions from one core to another.
struct MoveStep {
  size_t source = 0, target = 0;  // into the loads
  uint32_t partitions = 0;
  bool operator==(const MoveStep&) const = default;
};
/// Whether a core that stays holds less than half of an even share, or one that leaves holds
/// anything.
bool is_lopsided(const std::vector<CoreLoad>& loads);
/// None: it is as even as can be, or nobody is there to take what a leaving core holds.
std::optional<MoveStep> next_move(const std::vector<CoreLoad>& loads);

/// Contiguous ranges of `partitions`, as even as can be, one a core. With more cores than
/// partitions the last ones get none.
std::vector<std::vector<PartitionId>> even_ranges(uint32_t partitions, uint32_t cores);

/// A checkpoint's images by partition: none at all, or of each a whole one and what builds on it.
/// Error kBadData: they are not so.
Result<void> check_images(const std::vector<std::vector<wire::ImageRef>>& images,
                          uint32_t partitions);

/// Puts the images that all owners saved in order; those of partitions that are not their sender's
/// do not count. Error kMalformed: a partition missing or twice, or a file name that is no plain
/// name.
Result<std::vector<wire::ImageRef>> join_images(
    const wire::View& view, const std::vector<std::vector<wire::ImageRef>>& by_owner);

}  // namespace downpour::chief
