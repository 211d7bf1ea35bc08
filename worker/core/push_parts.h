// The messages of a push: as the pull was divided, or regrouped by a newer view.
#pragma once

#include <cstdint>
#include <vector>

#include "shared/tensor/variables.h"
#include "worker/core/pull_plan.h"
#include "worker/core/slot.h"

namespace downpour::worker {

/// Returns whether the set has no partition.
bool is_empty(const wire::PartitionSet& set);
/// Removes the partitions of `minus`.
void subtract(wire::PartitionSet& set, const wire::PartitionSet& minus);
void remove(wire::PartitionSet& set, PartitionId p);
/// Returns the set of all partitions of a view.
wire::PartitionSet all_partitions(const wire::View& view);

/// Regroups the unresolved parts of a slot by `placements`: messages with keys to the present
/// owners, in ascending order of owners. `base` has the fields that all messages share. The keys
/// and values of a message have at most `message_bytes_max` bytes.
std::vector<PushPart> regrouped_parts(const std::vector<TableSpec>& tables,
                                      const Placements& placements, uint64_t message_bytes_max,
                                      const Slot& slot, const wire::Push& base);

}  // namespace downpour::worker
