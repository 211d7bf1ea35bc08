#include "tools/embedded/line_evaluator.h"

#include <utility>

#include "shared/data/reading/batch_columns.h"
#include "shared/job/formats.h"
#include "tools/embedded/scorer_buffers.h"

namespace downpour::tools {

struct LineEvaluator::State {
  explicit State(const Scorer& scorer) : buffers(scorer) {}

  std::unique_ptr<data::LineBatches> lines;
  Scorer::Buffers buffers;
  Batch batch;
  model::BatchMetrics metrics;
};

LineEvaluator::LineEvaluator() = default;
LineEvaluator::~LineEvaluator() = default;

Result<std::unique_ptr<LineEvaluator>> LineEvaluator::make(std::shared_ptr<const Scorer> scorer,
                                                           Job job) {
  std::unique_ptr<LineEvaluator> evaluator(new LineEvaluator);
  job.data.filter.clear();
  job.data.bad_records = BadRecords::kFail;
  job.data.program.clear();
  const auto trained =
      data::make_read_plan(job, scorer->graph_->inputs(), scorer->widths(), SourceSpec{}, {}, 0);
  auto plan = data::for_evaluation(*trained, SourceSpec{}, {});
  evaluator->state_ = std::make_unique<State>(*scorer);
  DP_TRY(evaluator->state_->lines, data::LineBatches::make(std::move(plan), {}));
  evaluator->scorer_ = std::move(scorer);
  return evaluator;
}

Result<void> LineEvaluator::add(std::span<const std::string_view> lines,
                                std::vector<OutputSums>& sums) {
  State& state = *state_;
  DP_TRY_VOID(state.lines->parse(lines, state.batch));
  scorer_->gather(state.batch, state.buffers);
  scorer_->graph_->forward(state.batch, state.buffers.views, *state.buffers.workspace, 1,
                           state.buffers.predictions, &state.metrics);
  sums.resize(state.metrics.size());
  for (size_t o = 0; o < sums.size(); ++o) sums[o] += state.metrics[o].sums;
  return {};
}

}  // namespace downpour::tools
