// Run lock: ensures that one chief at a time writes into a run folder.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/env/file_lock.h"
#include "shared/env/storage.h"

namespace downpour::chief {

/// Creates the run folder if necessary and locks it for the lifetime of the result. Error
/// kUnavailable, naming the holder of the lock. `takeover` takes the lock from a chief that hangs
/// and cannot be ended. When that chief continues, it finds a newer term and stops.
Result<FileLock> lock_run(Storage& storage, const std::string& run_dir, bool takeover);

}  // namespace downpour::chief
