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

/// Removes the fields that are standardized from `names`, and returns them. Returns none if no name
/// would remain.
std::vector<std::string> take_standardized(const DataSpec& data, std::vector<std::string>& names);

/// Returns the number of columns of a network's inputs: fields of numbers and layers.
uint64_t width_of(const Job& job, const std::vector<std::string>& names);

}  // namespace downpour
