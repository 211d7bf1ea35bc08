// Training inside the calling process: without run folder, sockets and signal handlers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chief/core/events.h"
#include "shared/base/result.h"
#include "shared/job/job_file.h"
#include "tools/embedded/model.h"

namespace downpour::tools {

/// What the caller sees while a model trains.
struct TrainingProgress {
  const chief::ProgressSnapshot& snapshot;
  std::string history;  // new lines of history.jsonl; often empty
};

struct TrainingRequest {
  std::string job;   // the text of a job file; empty: a job is chosen for the data
  std::string data;  // source of the records, for example "memory:7"; empty: the job names it
  // A complete job whose data are checked, in place of `job`, `data` and `overrides`.
  const Job* checked = nullptr;
  std::vector<Override> overrides;
  std::string folder = "/";  // where relative paths of the job start
  uint32_t threads = 0;      // 0: as many as this process may use
  /// Called by the calling thread, at least ten times a second. Training ends early if it returns
  /// false, with what it has learned so far.
  std::function<bool(const TrainingProgress&)> on_progress;
};

struct Trained {
  ModelFiles model;
  std::string reason;  // findings about the data, if the job was chosen for them
  std::vector<std::string> warnings;
  bool stopped = false;  // on_progress has ended it
};

/// Trains a model. The calling thread runs the chief and the ps; the other threads end before the
/// function returns. The same request gives the same bits for one thread, and with a synchronous
/// job for any number of threads. Errors: those of the job, of the data, and of training.
Result<Trained> train(const TrainingRequest& request);

}  // namespace downpour::tools
