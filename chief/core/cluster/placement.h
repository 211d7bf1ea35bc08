// Placement: computes which ps core gets which partitions, and checks the images of a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shared/base/result.h"
#include "shared/wire/member_messages.h"

namespace downpour::chief {

/// A live ps core, as the placement of partitions sees it.
struct CoreLoad {
  uint32_t partitions = 0;
  bool leaving = false;  // all its partitions must move away
  bool takes = true;     // it may receive partitions now
};
/// The next step towards an even distribution: a number of partitions to move between two cores.
struct MoveStep {
  size_t source = 0, target = 0;  // indices into `loads`
  uint32_t partitions = 0;
  bool operator==(const MoveStep&) const = default;
};
/// Returns true if a staying core holds less than half of an even share, or a leaving core holds
/// any partition.
bool is_lopsided(const std::vector<CoreLoad>& loads);
/// Returns the next step. None if the distribution is even, or if no core can receive partitions.
std::optional<MoveStep> next_move(const std::vector<CoreLoad>& loads);

/// Divides `partitions` into contiguous ranges of nearly equal size, one per core. If there are
/// more cores than partitions, the last cores get empty ranges. `grouped`: divides each group of
/// partitions (RowGroup) in this way, so that a core gets a range of each.
std::vector<std::vector<PartitionId>> even_ranges(uint32_t partitions, uint32_t cores,
                                                  bool grouped = false);

/// Checks the images of a checkpoint, by partition: either there are none, or every partition has a
/// full image followed by the incremental ones that build on it. Error kBadData otherwise.
Result<void> check_images(const std::vector<std::vector<wire::ImageRef>>& images,
                          uint32_t partitions);

/// Returns the images that all owners saved, ordered by partition. Images of partitions that the
/// sender does not own are ignored. Error kMalformed if a partition is missing, occurs twice or
/// does not exist, or if a file name is not a plain name.
Result<std::vector<wire::ImageRef>> join_images(
    const wire::View& view, const std::vector<std::vector<wire::ImageRef>>& by_owner);

}  // namespace downpour::chief
