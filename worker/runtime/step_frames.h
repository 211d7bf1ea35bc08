// Step frames: copies between the frames of messages and the memory of the variables in one batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/tensor/batch.h"
#include "shared/tensor/variables.h"
#include "worker/core/pull_plan.h"

namespace downpour::worker {

/// A frame of floats to fill, and the Bytes that will carry it.
struct Frame {
  std::shared_ptr<float[]> floats;
  Bytes bytes;
};
Frame make_frame(uint64_t bytes);

/// Returns the flat index of the first variable of each table, then the number of all variables.
std::vector<size_t> first_variables(const std::vector<TableSpec>& tables);

/// Returns how many floats each variable has in a batch: those of one row for each unique key, or
/// of a dense variable all elements.
std::vector<uint64_t> variable_floats(const std::vector<TableSpec>& tables, const Batch& batch);

/// Copies pulled values, one Bytes for each message of the plan, to the memory of each variable.
void gather(const std::vector<TableSpec>& tables, const PullPlan& plan,
            std::span<const Bytes> values, std::span<float* const> variables);

/// Copies the gradient of each variable to the frames of the plan's messages. Returns whether all
/// gradients are finite.
bool scatter(const std::vector<TableSpec>& tables, const PullPlan& plan,
             std::span<const float* const> gradients, std::span<const Frame> frames);

/// Whether all values are finite.
bool all_finite(const float* values, size_t count);

}  // namespace downpour::worker
