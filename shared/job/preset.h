// Presets: short names for whole models and data formats, which expand to plain layers, columns and
// fields.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour {

/// Completes a job. Preconditions: data.format is known; data.columns and data.fields are set,
/// unless the format itself defines them. (If the job file omits them, the caller sets them from
/// the data file first.) Adds the format's own columns and fields, and expands runs of names, the
/// model preset and default metrics. Then validates. Idempotent. Errors: kConfig; `where` is the
/// key.
Result<void> complete_job(Job& job);

}  // namespace downpour
