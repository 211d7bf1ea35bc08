// AllPartitions: the messages that make one ps core the owner of all partitions.
#pragma once

#include <cstdint>

#include "ps/core/ps_core.h"

namespace downpour {

/// Send `adopt` and then `view` to the core, as its chief.
struct AllPartitions {
  wire::Adopt adopt{.ownership_generation = {1, 1}};
  wire::View view{.id = {1, 1}, .owners = {{.incarnation = Incarnation{1}}}};
  wire::PartitionSet covered;  // for pushes

  explicit AllPartitions(const ps::PsCore& core) {
    for (uint32_t p = 0; p < core.partitions().count(); ++p) {
      adopt.partitions.push_back(PartitionId{p});
      view.partitions.push_back({.owner = 0, .ownership_generation = {1, 1}});
      covered.insert(PartitionId{p});
    }
  }
};

}  // namespace downpour
