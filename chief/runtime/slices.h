// Evaluation data before training: a first look, and the values of the fields of eval.slices whose
// metrics an evaluation shows.
#pragma once

#include "chief/runtime/run_setup.h"
#include "shared/base/result.h"

namespace downpour::chief {

/// Reads the first batch of each of the first files of the evaluation data, so that data which do
/// not fit the job are an error before training begins. Does nothing if a program makes them, or if
/// they are held out of the training data. Errors: those of reading.
Result<void> check_evaluation(const RunPlan& plan);

/// Fills in `values` of each slice that has none: the most frequent values of its field in the
/// evaluation data, and of equally frequent ones the first in the alphabet. Updates the plan's job.
/// Reads the evaluation data once, with several threads; the result does not depend on their
/// number. Does nothing for a training without evaluation data. Errors: those of reading; kConfig
/// if the data come from a program, whose records cannot be read before training; kBadData if a
/// field has more than 10,000 different values.
Result<void> choose_slices(RunPlan& plan, wire::Purpose mode);

}  // namespace downpour::chief
