// Selection: decides which epoch's model a run keeps as its result, and whether training stops
// early. The functions are pure, so a restarted chief makes the same decisions.
#pragma once

#include <cstdint>
#include <vector>

#include "chief/core/events.h"

namespace downpour::chief {

/// Returns the mean loss over the records, summed over the outputs with the job's output weights.
/// NaN if an output has no evaluated record.
double evaluation_loss(const Job& job, const Evaluation& evaluation);

/// Returns the number of trained epochs with the lowest evaluation loss, the earliest on a tie. 0
/// if no evaluation has a finite loss.
uint32_t best_epochs(const Job& job, const std::vector<Evaluation>& evaluations);

/// Returns true if none of the last `eval.early_stop.patience` evaluations improves on the best one
/// before them. False if patience is 0. Source: Prechelt 1998, "Early Stopping - But When?",
/// criterion UP, with the best loss so far in place of the previous one.
bool stops_early(const Job& job, const std::vector<Evaluation>& evaluations);

}  // namespace downpour::chief
