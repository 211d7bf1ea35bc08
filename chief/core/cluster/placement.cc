#include "chief/core/cluster/placement.h"

#include <algorithm>

#include "shared/base/plain_name.h"

namespace downpour::chief {

bool is_lopsided(const std::vector<CoreLoad>& loads) {
  uint32_t partitions = 0, stay = 0;
  for (const CoreLoad& load : loads) {
    partitions += load.partitions;
    stay += load.leaving ? 0 : 1;
  }
  return std::any_of(loads.begin(), loads.end(), [&](const CoreLoad& load) {
    if (load.leaving) return load.partitions > 0;
    return load.takes && 2 * load.partitions * stay < partitions;
  });
}

std::optional<MoveStep> next_move(const std::vector<CoreLoad>& loads) {
  std::optional<size_t> most, least, leaving;
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i].leaving) {
      if (loads[i].partitions > 0 && !leaving) leaving = i;
      continue;
    }
    if (!most || loads[i].partitions > loads[*most].partitions) most = i;
    if (!loads[i].takes) continue;
    if (!least || loads[i].partitions < loads[*least].partitions) least = i;
  }
  if (!least) return std::nullopt;
  if (leaving) {
    // Spread them over all staying cores, so that no rebalancing is needed afterwards.
    const auto stay = uint32_t(std::count_if(
        loads.begin(), loads.end(), [](const CoreLoad& l) { return !l.leaving && l.takes; }));
    return MoveStep{*leaving, *least, (loads[*leaving].partitions + stay - 1) / stay};
  }
  const uint32_t apart = loads[*most].partitions - loads[*least].partitions;
  if (apart < 2) return std::nullopt;
  return MoveStep{*most, *least, apart / 2};
}

std::vector<std::vector<PartitionId>> even_ranges(uint32_t partitions, uint32_t cores,
                                                  bool grouped) {
  DP_CHECK(cores > 0);
  std::vector<std::vector<PartitionId>> ranges(cores);
  const uint32_t of_group = grouped ? partitions / 2 : partitions;
  const uint64_t used = std::min(cores, of_group);
  for (uint32_t p = 0; p < partitions; ++p) {
    ranges[size_t(p % of_group * used / of_group)].push_back(PartitionId(p));
  }
  return ranges;
}

Result<void> check_images(const std::vector<std::vector<wire::ImageRef>>& images,
                          uint32_t partitions) {
  if (images.empty()) return {};
  if (images.size() != partitions) {
    return Error{ErrorCode::kBadData, str("the checkpoint has images of ", images.size(),
                                          " partitions, but this job has ", partitions)};
  }
  for (uint32_t p = 0; p < partitions; ++p) {
    for (size_t i = 0; i < std::max<size_t>(1, images[p].size()); ++i) {
      const bool fits = i < images[p].size() && raw(images[p][i].partition) == p &&
                        images[p][i].base == (i == 0 ? 0 : images[p][i - 1].checksum);
      if (fits) continue;
      return Error{ErrorCode::kBadData,
                   str("the checkpoint has no valid image chain for partition ", p)};
    }
  }
  return {};
}

Result<std::vector<wire::ImageRef>> join_images(
    const wire::View& view, const std::vector<std::vector<wire::ImageRef>>& by_owner) {
  std::vector<wire::ImageRef> joined(view.partitions.size());
  std::vector<bool> have(view.partitions.size());
  for (uint32_t owner = 0; owner < by_owner.size(); ++owner) {
    for (const wire::ImageRef& image : by_owner[owner]) {
      const uint32_t p = raw(image.partition);
      // A partition from a cancelled move, which the ps has not dropped yet.
      if (p < have.size() && view.partitions[p].owner != owner) continue;
      if (p >= have.size() || have[p] || !is_plain_name(image.file)) {
        return Error{
            ErrorCode::kMalformed,
            str("ps ", view.owners[owner].index, " saved partition ", p, " in file '", image.file,
                "': the partition is unknown or a duplicate, or the file name is invalid")};
      }
      have[p] = true;
      joined[p] = image;
    }
  }
  for (uint32_t p = 0; p < have.size(); ++p) {
    if (!have[p]) {
      return Error{ErrorCode::kMalformed, str("ps ", view.owners[view.partitions[p].owner].index,
                                              " did not save its partition ", p)};
    }
  }
  return joined;
}

}  // namespace downpour::chief
