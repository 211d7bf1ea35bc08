// Run lock: one chief at a time writes into a run folder.
#pragma once

#include <string>

#include "shared/base/result.h"
#include "shared/env/file_lock.h"
#include "shared/env/storage.h"

namespace downpour::chief {

/// Locks the run folder, made where it is not there, for the life of the result. Error kUnavailable
/// naming who has it. `takeover`: where that one hangs and can't be ended; it finds a newer term
/// when it wakes, and stops.
Result<FileLock> lock_run(Storage& storage, const std::string& run_dir, bool takeover);

}  // namespace downpour::chief
