#include "tools/embedded/line_evaluator.h"

#include <utility>

#include "shared/data/reading/batch_columns.h"
#include "shared/job/formats.h"
#include "tools/embedded/scorer_buffers.h"

namespace downpour::tools {

struct LineEvaluator::State {
  explicit State(const Scorer& scorer) : buffers(scorer) {}

  std::unique_ptr<data::LineBatches> lines;
  std::unique_ptr<data::LineBatches> filtered;  // null: the job has no filter
  Scorer::Buffers buffers;
  Batch batch;
  model::BatchMetrics metrics;
};

LineEvaluator::LineEvaluator() = default;
LineEvaluator::~LineEvaluator() = default;

Result<std::unique_ptr<LineEvaluator>> LineEvaluator::make(std::shared_ptr<const Scorer> scorer,
                                                           Job job) {
  std::unique_ptr<LineEvaluator> evaluator(new LineEvaluator);
  job.data.bad_records = BadRecords::kFail;
  job.data.program.clear();
  const auto batches = [&] {
    const auto trained =
        data::make_read_plan(job, scorer->graph_->inputs(), scorer->widths(), SourceSpec{}, {}, 0);
    return data::LineBatches::make(data::for_evaluation(*trained, SourceSpec{}, {}), {});
  };
  evaluator->state_ = std::make_unique<State>(*scorer);
  State& state = *evaluator->state_;
  if (!job.data.filter.empty()) {
    DP_TRY(state.filtered, batches());
  }
  job.data.filter.clear();
  DP_TRY(state.lines, batches());
  evaluator->scorer_ = std::move(scorer);
  return evaluator;
}

Result<std::vector<bool>> LineEvaluator::kept(std::span<const std::string_view> lines) {
  std::vector<bool> kept(lines.size(), true);
  for (size_t i = 0; state_->filtered != nullptr && i < lines.size(); ++i) {
    if (auto parsed = state_->filtered->parse(lines.subspan(i, 1), state_->batch); !parsed) {
      parsed.error().where = str("row ", i);
      return std::move(parsed).error();
    }
    kept[i] = state_->batch.records > 0;
  }
  return kept;
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
