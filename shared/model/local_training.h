// LocalTraining: how a replica trains alone during a round of mode "local".
#pragma once

#include <cstdint>
#include <vector>

#include "shared/tensor/optimizers.h"

namespace downpour::model {

/// A part has the records of a replica's round. The replica trains them in batches, with the job's
/// optimizers, on its own copy of the variables. TableSpec has the outer optimizer, which applies
/// the mean of the replicas' changes.
struct LocalTraining {
  uint32_t batch_size = 0;    // records; the last batch of a shard may have fewer
  uint32_t steps = 0;         // batches of a full round
  bool whole_epochs = false;  // a round is a share of an epoch, usually far below `steps`
  std::vector<OptimizerSpec> optimizers;  // flat: for each table, each of its variables
};

}  // namespace downpour::model
