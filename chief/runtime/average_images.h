// Averaging: the mean of several models of the same structure, one partition at a time.
#pragma once

#include <span>
#include <vector>

#include "shared/base/result.h"
#include "shared/checkpoint/image.h"
#include "shared/tensor/variables.h"

namespace downpour::chief {

/// Checks that `image` stores as many floats per weight as the optimizers of its table need. The
/// reader of images does not know how many that is. Error kBadData.
Result<void> check_slots(const TableSpec& spec, const checkpoint::TableImage& image);

/// Returns the rows of `images`, which are the same partition of several models. Every weight is
/// the mean of those models that have its row, in proportion to `shares` (one positive number per
/// model). So a row that only one model has keeps its weights. Optimizer slots are not averaged:
/// they start anew. All other state of the partition is that of a new model. Source of the method:
/// McDonald, Hall, Mann, "Distributed Training Strategies for the Structured Perceptron", NAACL
/// 2010. Errors: kBadData if the floats of a row do not fit its variable.
Result<checkpoint::PartitionImage> average_images(
    std::span<const checkpoint::PartitionImage> images, std::span<const double> shares,
    const std::vector<TableSpec>& tables);

}  // namespace downpour::chief
