// The model job: two embedding tables of width 8 and a dense layer under Adam, whose gradients do
// not depend on the weights.
#pragma once

#include "tools/sim/counter.h"

namespace downpour::sim {

/// The job, its training data and its evaluation data in files of the machine's folder for
/// temporary files. A record has a `user` of its own, an `item` of a few that all records share,
/// two numbers and eight targets. The user's row, the item's row and a linear layer over the
/// numbers are summed; a squared loss compares the sum with the targets. A second output counts
/// each user's records with SGD, as the counter model does; its weights share the users' table.
///
/// Targets are 2^27 or above, so float32 rounds a small prediction away and each gradient is
/// -target / 4 exactly. Betas of 0.5 and 0.75 keep a row sensitive to each of its steps.
Result<Job> make_model_job(const JobSize& size);

}  // namespace downpour::sim
