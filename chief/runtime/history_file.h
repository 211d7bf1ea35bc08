// The file history.jsonl of a run folder: one line for each finished epoch, for people and
// programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chief/core/events.h"
#include "chief/runtime/figures.h"
#include "shared/base/result.h"
#include "shared/env/storage.h"
#include "shared/job/job.h"

namespace downpour::chief {

/// Returns the figure of that name; none if there is none.
std::optional<double> figure_of(const Figures& figures, std::string_view name);

/// One line: an epoch, and the newest evaluation after it.
struct HistoryLine {
  uint32_t epoch = 0;    // from 1
  bool partial = false;  // train.steps ended the job inside this epoch
  uint64_t steps = 0;    // batches from the start of the run to the end of this epoch
  // The same in the unit of train.steps: in a job with replicas, the steps or local rounds that all
  // replicas make together.
  uint64_t steps_counted = 0;
  uint64_t records = 0;  // applied in this epoch
  double seconds = 0;    // of training
  // Of optimizer.learning_rate and its schedule, at the last step of the epoch.
  std::optional<double> learning_rate;
  Figures train;
  uint64_t eval_records = 0;
  double eval_seconds = 0;
  Figures eval;  // empty: the epoch was not evaluated
  std::vector<SliceFigures> slices;
  std::vector<ReliabilityFigures> reliability;  // of the evaluation
  bool operator==(const HistoryLine&) const = default;
};

/// Returns the lines of a run from what its manifest holds, so a restarted chief has the same ones.
/// Figures that are not finite are left out.
std::vector<HistoryLine> history_lines(const Job& job, const std::vector<EpochAccount>& epochs,
                                       const std::vector<Evaluation>& evaluations);

std::string history_path(const std::string& run_dir);
/// Returns the text of history.jsonl.
std::string history_text(const std::vector<HistoryLine>& lines);
/// Reads the text. Of several lines of one epoch the last one counts, and the lines are in the
/// order of their epochs. Error kBadData with the place of a line that is not a JSON object with an
/// epoch.
Result<std::vector<HistoryLine>> parse_history(std::string_view text, const std::string& path);

/// Writes the lines of the checkpoint from which the run resumes, because an earlier chief may have
/// died after it published the checkpoint. Writes nothing for a new run. Returns a warning if the
/// file can't be written, otherwise an empty text. Error kPermission if the file is a link.
Result<std::string> restore_history(Storage& storage, const std::string& run_dir,
                                    const ChiefConfig& config);

/// Returns the warning that the history can't be written. Training continues without it.
std::string history_warning(const Error& error);

/// Replaces the file atomically. A crash leaves the old or the new lines.
Result<void> write_history(Storage& storage, const std::string& run_dir,
                           const std::vector<HistoryLine>& lines);

}  // namespace downpour::chief
