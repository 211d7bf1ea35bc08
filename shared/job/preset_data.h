// Completes the data of a job: columns and fields of the format, and runs of names.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// Expands runs of names in the columns and fields, adds those of the data format, hashes texts
/// that no op turns into keys, and sorts the fields by their columns. Error: kConfig; `where` is
/// the key.
Result<void> complete_data(DataSpec& data);

}  // namespace downpour
