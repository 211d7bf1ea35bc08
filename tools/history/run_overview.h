// Run overview: what a run folder says about a run: its job, its history and its state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/runtime/history_file.h"
#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"

namespace downpour::tools {

enum class RunState : uint8_t {
  kRunning,       // a process of this machine holds the lock of the run
  kFinished,      // the job has all the training that it asks for
  kStopped,       // training can continue
  kNoCheckpoint,  // nothing is saved
};

const char* text_of(RunState state);

/// The figure by which the epochs of a run are compared.
struct DecidingFigure {
  std::string name;   // in HistoryLine::eval
  std::string shown;  // the figure that people see: the rmse in place of a squared loss
  bool higher_is_better = false;
  double best = 0;  // with `has_best`: the best value, as of a calibration
  bool has_best = false;
};

struct RunOverview {
  std::string folder;  // as the user named it
  Job job;
  RunState state = RunState::kNoCheckpoint;
  std::vector<chief::HistoryLine> lines;
  int64_t saved_unix_s = 0;  // time of the newest checkpoint; 0: none
  uint32_t kept_epoch = 0;   // whose checkpoint eval and predict use; 0: the last one

  /// Returns the line of `kept_epoch`. If it is 0: of the epoch with the best evaluation, the
  /// earliest on a tie; null without evaluations.
  const chief::HistoryLine* best() const;
  /// Returns the line of the epoch whose model eval and predict use. Null without lines.
  const chief::HistoryLine* result() const;
};

/// Returns the figure that eval.early_stop.metric names.
DecidingFigure deciding_figure(const Job& job);

/// Returns true if the folder looks like a run folder.
bool is_run_folder(const std::string& folder);

/// Reads the newest checkpoint of a run. Without one, reads job.toml and history.jsonl, which are
/// enough for a copy of a run without its variables. Errors: kNoInput if the folder is not that of
/// a run; kBadData, kConfig if a file of it can't be read.
Result<RunOverview> read_run_overview(Storage& storage, const std::string& folder);

/// Returns the overviews of the run folders in a folder, in the order of their names; if the folder
/// is a run folder itself, its own. A run that can't be read adds its error to `unreadable`. Error
/// kNoInput if there is no run.
Result<std::vector<RunOverview>> read_run_overviews(Storage& storage, const std::string& folder,
                                                    std::vector<Error>& unreadable);

}  // namespace downpour::tools
