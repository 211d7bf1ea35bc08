// Selection: which epoch's model a run keeps as its result, and whether training stops early. Pure
// functions of the evaluations, so a chief that is started again decides the same.
#pragma once

#include <cstdint>
#include <vector>

#include "chief/core/events.h"

namespace downpour::chief {

/// Mean loss over the records, summed over the outputs with the job's output weights. NaN where an
/// output has no evaluated record.
double evaluation_loss(const Job& job, const Evaluation& evaluation);

/// The number of trained epochs with the lowest evaluation loss; the earliest of equals. 0 if no
/// evaluation has a finite loss.
uint32_t best_epochs(const Job& job, const std::vector<Evaluation>& evaluations);

/// True if the last `eval.early_stop.patience` evaluations all failed to improve on the best one
/// before them. Never true with patience 0. Source: Prechelt 1998, "Early Stopping - But When?",
/// criterion UP, with the best loss so far in place of the previous one.
bool stops_early(const Job& job, const std::vector<Evaluation>& evaluations);

}  // namespace downpour::chief
