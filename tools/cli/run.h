// Runs a complete job from start to summary, in one process or with local processes. For the verbs
// train, eval and predict.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chief/runtime/console.h"
#include "shared/base/result.h"
#include "shared/env/file_lock.h"
#include "shared/job/job.h"
#include "shared/job/job_file.h"
#include "shared/wire/lease_messages.h"

namespace downpour::tools {

struct RunRequest {
  Job job;          // complete
  Origins origins;  // for messages and --dry-run
  chief::GivenCommand command;
  /// Trains a linear model for comparison with that of a job whose statistics are learned, for at
  /// most `limit_ns`, unless `stop` returns true.
  std::function<std::optional<chief::LinearBaseline>(const Job& job, int64_t limit_ns,
                                                     const std::function<bool()>& stop)>
      baseline;
  wire::Purpose mode = wire::Purpose::kTrain;
  bool fresh = false;
  bool takeover = false;  // take over a run folder whose chief hangs
  bool dry_run = false;
  FileLock lock;                   // of the run folder, if the caller holds it already
  std::vector<std::string> notes;  // warnings to show
  chief::ConsoleOptions console;
  std::function<void(const chief::PredictionBatch&)> on_prediction;
};

/// Runs the job. Reports errors to the user and returns the exit status.
int run_job(RunRequest request);

/// Prints "error: what / where / hint" to stderr, and returns the exit status.
int report(const Error& error, const chief::ConsoleOptions& console);

}  // namespace downpour::tools
