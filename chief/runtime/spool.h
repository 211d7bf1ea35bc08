// Spool: sources that are no files are made files of the run's folder, once, by the process that
// reads the job. So they can be cut, read by all workers, and read again after a death.
#pragma once

#include "shared/base/result.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Puts the path of a file in RUN_DIR/sources in the place of "-" (what comes on stdin, until it
/// ends) and of "range:N" (the numbers from 0 to N - 1, a line each) among the job's sources, and
/// declares the one field of numbers where the job says nothing. A file that is there already is
/// taken as it is, unless `fresh`. Errors: kUsage where stdin is a terminal, kBadData where it is
/// empty, kIo, kCannotCreate.
Result<void> spool_sources(Job& job, bool fresh);

}  // namespace downpour::chief
