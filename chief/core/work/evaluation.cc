#include "chief/core/work/evaluation.h"

#include "shared/metrics/merge_outputs.h"

namespace downpour::chief {

void EvaluationRun::take(uint32_t shard, wire::EvalReport&& report) {
  waiting_.emplace(shard, std::move(report));
  for (auto next = waiting_.find(merged_); next != waiting_.end(); next = waiting_.find(merged_)) {
    merge(next->second);
    waiting_.erase(next);
    ++merged_;
  }
}

void EvaluationRun::merge(const wire::EvalReport& report) {
  counts_ += report.counts;
  merge_outputs(outputs_, report.outputs);
}

Evaluation EvaluationRun::finish(int64_t now_ns) {
  DP_CHECK(waiting_.empty(), waiting_.size());
  Evaluation evaluation{.id = id_,
                        .epochs_trained = epochs_trained_,
                        .counts = counts_,
                        .outputs = std::move(outputs_),
                        .rankings = {},
                        .wall_ns = now_ns - begin_ns_};
  for (const OutputMetrics& output : evaluation.outputs)
    evaluation.rankings.push_back(ranking_metrics(output.auc));
  return evaluation;
}

}  // namespace downpour::chief
