// Run: a complete job from start to summary, in one process or with local processes; for train,
// eval and predict.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "chief/runtime/console.h"
#include "shared/base/result.h"
#include "shared/env/file_lock.h"
#include "shared/job/job.h"
#include "shared/job/job_file.h"
#include "shared/wire/messages.h"

namespace downpour::tools {

struct RunRequest {
  Job job;                   // complete
  Origins origins;           // for messages and --dry-run
  std::string job_argument;  // as the user named it
  wire::Purpose mode = wire::Purpose::kTrain;
  bool fresh = false;
  bool takeover = false;  // of a run folder whose chief hangs
  bool dry_run = false;
  FileLock lock;                   // of the run folder, where it is held already
  std::vector<std::string> notes;  // warnings to be shown
  chief::ConsoleOptions console;
  std::function<void(const chief::PredictionBatch&)> on_prediction;
};

/// Returns the exit status; whatever went wrong has been said.
int run_job(RunRequest request);

/// "error: what / where / hint" on stderr; returns the exit status.
int report(const Error& error, const chief::ConsoleOptions& console);

}  // namespace downpour::tools
