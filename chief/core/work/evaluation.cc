#include "chief/core/work/evaluation.h"

#include "shared/base/str.h"
#include "shared/metrics/groups.h"
#include "shared/metrics/merge_outputs.h"

namespace downpour::chief {

size_t slice_count(const Job& job) {
  size_t rows = 0;
  for (const SliceSpec& slice : job.eval.slices) rows += slice.rows();
  return rows * job.model.outputs.size();
}

std::string wrong_report(const Job& job, const wire::EvalReport& report) {
  // A shard without a record to evaluate (all filtered, or none held out) has no outputs.
  if (report.counts.applied == 0 && report.outputs.empty() && report.slices.empty()) return "";
  if (report.outputs.size() != job.model.outputs.size()) {
    return str("it reported ", report.outputs.size(), " outputs, but the model has ",
               job.model.outputs.size());
  }
  if (report.slices.size() == slice_count(job)) return "";
  return str("it reported ", report.slices.size(), " metrics of slice rows, but the job has ",
             slice_count(job));
}

namespace {

/// Returns the floats of a record in the values of a report with groups.
size_t group_width(const Job& job) { return 2 + 2 * job.model.outputs.size(); }

}  // namespace

bool EvaluationRun::take_groups(const Job& job, const wire::PredictReport& report, Bytes&& values) {
  if (job.eval.group_by.empty() || report.records == 0) return false;
  // With data.negatives a record has several rows, in a small batch fewer than usual. `row_bytes`
  // are those of one row of each record.
  const uint64_t row_bytes = uint64_t{report.records} * group_width(job) * sizeof(float);
  const uint64_t rows = values.size() / row_bytes;
  if (rows == 0 || rows > 1 + job.data.negatives.per_record || values.size() != rows * row_bytes)
    return false;
  const uint32_t shard = report.lease.shard.shard;
  if (grouped_in_all_ > kGroupRecordsMax) return true;
  if (!grouped_.try_emplace({shard, report.batch}, std::move(values)).second) return true;
  grouped_records_[shard] += report.records;
  grouped_in_all_ += rows * report.records * job.model.outputs.size();
  if (grouped_in_all_ > kGroupRecordsMax) {
    for (auto& [batch, kept] : grouped_) kept = {};
  }
  return true;
}

bool EvaluationRun::has_groups(const Job& job, const wire::EvalReport& report) const {
  const auto known = grouped_records_.find(report.lease.shard.shard);
  const uint64_t records = known == grouped_records_.end() ? 0 : known->second;
  return job.eval.group_by.empty() || grouped_in_all_ > kGroupRecordsMax ||
         records >= report.counts.applied;
}

void EvaluationRun::rank_groups(const Job& job, Evaluation& evaluation) {
  evaluation.groups_dropped = grouped_in_all_ > kGroupRecordsMax;
  if (evaluation.groups_dropped) return;
  const size_t width = group_width(job);
  for (size_t o = 0; o < evaluation.rankings.size() && !grouped_.empty(); ++o) {
    std::vector<GroupedRecord> records;
    records.reserve(grouped_in_all_ / evaluation.rankings.size());
    for (const auto& [batch, values] : grouped_) {
      for (size_t at = 0; at + width <= values.size() / sizeof(float); at += width) {
        const float label = values.load<float>(at + 3 + 2 * o);
        if (label < 0.0F) continue;
        const auto half = [&](size_t i) {
          const float number = values.load<float>(at + i);
          return number >= 0.0F && number < 0x1p24F ? uint64_t(number) : 0;
        };
        records.push_back({.group = half(0) << 24 | half(1),
                           .score = values.load<float>(at + 2 + 2 * o),
                           .positive = label > 0.5F});
      }
    }
    const GroupMetrics metrics = group_metrics(records, job.eval.ndcg_at);
    evaluation.rankings[o].gauc = metrics.gauc;
    evaluation.rankings[o].ndcg = metrics.ndcg;
  }
  grouped_.clear();
}

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
  merge_outputs(slices_, report.slices);
}

Evaluation EvaluationRun::finish(const Job& job, int64_t now_ns) {
  DP_CHECK(waiting_.empty(), waiting_.size());
  Evaluation evaluation{.id = id_,
                        .epochs_trained = epochs_trained_,
                        .counts = counts_,
                        .outputs = std::move(outputs_),
                        .rankings = {},
                        .reliability = {},
                        .slices = std::move(slices_),
                        .slice_rankings = {},
                        .wall_ns = now_ns - begin_ns_};
  for (size_t o = 0; o < evaluation.outputs.size(); ++o) {
    const std::vector<AucBucket>& buckets = evaluation.outputs[o].auc;
    evaluation.rankings.push_back(ranking_metrics(buckets));
    evaluation.reliability.emplace_back();
    if (o < job.model.outputs.size() && job.model.outputs[o].loss == "logistic")
      evaluation.reliability[o] = reliability_bins(buckets, kReliabilityBins);
  }
  for (OutputMetrics& slice : evaluation.slices) {
    evaluation.slice_rankings.push_back(ranking_metrics(slice.auc));
    slice.auc = {};
  }
  rank_groups(job, evaluation);
  return evaluation;
}

}  // namespace downpour::chief
