// Same meaning: whether keys, classes and inputs mean the same in two jobs, so that the variables
// of one can be used in the other.
#pragma once

#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/tensor/variables.h"

namespace downpour::chief {

/// Checks that the words of all `vocabulary` ops have the line numbers that they had in `was`,
/// because these are the keys of the rows. A vocabulary may have new words at its end. Both jobs
/// must be noted (data::note_vocabularies()). Errors: kConfig names the field and the first word
/// that has changed; those of data::Vocabulary::load().
Result<void> check_vocabularies(const Job& was, const Job& now);

/// Checks that the variables of a run of `was` mean the same in a new run of `now`: vocabularies,
/// the classes of fields, and the order of the numbers that a layer reads. Errors: kConfig with
/// both values.
Result<void> check_meaning(const Job& was, const Job& now);

/// Checks by their names that a checkpoint has the tables of the job's model, so that equal keys
/// mean the same rows. Another build of Downpour may have kept the rows in other tables. Error:
/// kConfig.
Result<void> check_tables(const std::vector<TableSpec>& was, const std::vector<TableSpec>& now);

}  // namespace downpour::chief
