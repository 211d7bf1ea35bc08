// The model job of the simulator: two embedding tables of width 8 and a dense layer, trained with
// Adam and row-wise Adagrad. Its gradients do not depend on the weights.
#pragma once

#include "tools/sim/counter.h"

namespace downpour::sim {

/// Makes the job, and writes its training and evaluation data to files in the machine's folder for
/// temporary files. Each record has its own `user`, one of a few shared `item`s, two numbers and
/// eight targets. The model sums the user's row, the item's row and a linear layer of the numbers;
/// a squared loss compares the sum with the targets. A second output counts each user's records
/// with SGD, as in the counter model. Its weights are in the users' table. The items' table has
/// row-wise Adagrad.
///
/// Targets are at least 2^27, so float32 rounds a small prediction away, and each gradient is
/// exactly -target / 4. Betas of 0.5 and 0.75 keep a row sensitive to each of its steps.
Result<Job> make_model_job(const JobSize& size);

}  // namespace downpour::sim
