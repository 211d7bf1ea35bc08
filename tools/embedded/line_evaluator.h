// LineEvaluator: the metrics of a model on lines in memory that have labels.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/job/job.h"
#include "shared/model/graph.h"
#include "tools/embedded/model.h"

namespace downpour::tools {

/// Keeps its buffers from call to call. Belongs to one thread.
class LineEvaluator {
 public:
  /// `job` is the scorer's job, with the columns of the lines; its format is one of lines without a
  /// header. Errors: those of the format's parser.
  static Result<std::unique_ptr<LineEvaluator>> make(std::shared_ptr<const Scorer> scorer, Job job);
  ~LineEvaluator();

  /// Adds the sums of each output over the lines. `sums` must be empty, or the result of an earlier
  /// call. Requires what data::LineBatches::parse() requires. Error kBadData: `where` is "row N",
  /// from 0.
  Result<void> add(std::span<const std::string_view> lines, std::vector<OutputSums>& sums);

  /// Returns for each line whether the job's filter keeps it. Requires and returns errors as add().
  Result<std::vector<bool>> kept(std::span<const std::string_view> lines);

 private:
  LineEvaluator();
  struct State;

  std::shared_ptr<const Scorer> scorer_;
  std::unique_ptr<State> state_;
};

}  // namespace downpour::tools
