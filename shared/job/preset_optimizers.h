// The optimizers that presets choose for a job without one.
#pragma once

#include <cstdint>
#include <string>

#include "shared/job/job.h"

namespace downpour {

/// Sets the optimizer of a linear model, unless the job has one. Then also sets train.reduction to
/// "sum", unless the job has it; the next function does, too. A weight's steps depend only on the
/// records that have its key, and are large at first.
void set_linear_optimizer(Job& job);

/// Sets the optimizers of a network over embeddings, unless the job has one. Adam takes small steps
/// from the start, which suits dense variables. FTRL and Adagrad suit keys: a key's steps depend
/// only on the records that have it. `wide` and `embedding` are the names of the layers with keys,
/// or empty.
void set_network_optimizer(Job& job, const std::string& wide, const std::string& embedding);

/// Adds the optimizer of the linear layer `line`, which reads `columns` standardized numbers,
/// unless the job has one. The layer learns in larger steps, and so before the network. The first
/// step changes each weight by the learning rate. So the rate falls with the columns: together they
/// change the output by at most a few units.
void add_line_optimizer(Job& job, const std::string& line, uint64_t columns);

constexpr double kPairs = 50;  // in a record, if it is not known
/// Sets the optimizers of a factorization machine, also if the job has one. The noise of all pairs
/// of keys in a record adds up. So the more pairs there are, the more its vectors are regularized:
/// with enough of it they stay near 0 and a linear model remains, unless pairs help. FTRL compares
/// `l2` with the sum of all gradients so far. `linear` is the name of the linear layer.
void set_machine_optimizer(Job& job, const std::string& linear, double pairs = kPairs);

}  // namespace downpour
