// Numbers as inputs of a model: their columns, and the standardized numbers of a data file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/job/job.h"

namespace downpour {

/// Adds a field NAME_scaled for each field NAME of numbers that become quantiles: the same numbers,
/// standardized and clipped, because quantiles lose a linear relation to the target.
void add_scaled_fields(DataSpec& data);

/// Removes from `names` the fields that are standardized, and returns them. If no name would
/// remain, removes and returns none.
std::vector<std::string> take_standardized(const DataSpec& data, std::vector<std::string>& names);

/// Returns the total number of columns of a network's inputs. Each name is a field of numbers or a
/// layer.
uint64_t width_of(const Job& job, const std::vector<std::string>& names);

}  // namespace downpour
