// EvaluationRun: the metrics of one evaluation. Reports are merged in shard order, so the result
// does not depend on the order in which they arrive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/events.h"

namespace downpour::chief {

/// The largest number of records of an evaluation, times the outputs, for which metrics of groups
/// are computed: the chief keeps up to 16 bytes of each. With more, these metrics have no value.
constexpr uint64_t kGroupRecordsMax = 10'000'000;

/// Returns the number of rows of eval.slices, times the outputs of the model.
size_t slice_count(const Job& job);

/// Returns how a report does not fit the job; empty if it does.
std::string wrong_report(const Job& job, const wire::EvalReport& report);

class EvaluationRun {
 public:
  EvaluationRun() = default;
  EvaluationRun(uint32_t id, uint32_t epochs_trained, int64_t begin_ns)
      : id_(id), epochs_trained_(epochs_trained), begin_ns_(begin_ns) {}

  /// Adds the records of a batch with their groups. The first report of each (shard, batch) counts,
  /// because all of them have the same records. Returns false if the report does not fit the job.
  bool take_groups(const Job& job, const wire::PredictReport& report, Bytes&& values);
  /// Returns whether all records of a reported shard have arrived, so far as the job needs them.
  bool has_groups(const Job& job, const wire::EvalReport& report) const;
  /// Adds the report of one shard. The caller passes each shard only once.
  void take(uint32_t shard, wire::EvalReport&& report);
  /// Returns the evaluation; requires a report of every shard.
  Evaluation finish(const Job& job, int64_t now_ns);

 private:
  void merge(const wire::EvalReport& report);
  void rank_groups(const Job& job, Evaluation& evaluation);

  uint32_t id_ = 0;
  uint32_t epochs_trained_ = 0;
  int64_t begin_ns_ = 0;
  uint32_t merged_ = 0;                           // shards below this number are in the sums
  std::map<uint32_t, wire::EvalReport> waiting_;  // reports that wait for an earlier shard
  wire::ShardCounts counts_;
  std::vector<OutputMetrics> outputs_, slices_;
  std::map<std::pair<uint32_t, uint32_t>, Bytes> grouped_;  // by shard and batch
  std::map<uint32_t, uint64_t> grouped_records_;            // by shard
  uint64_t grouped_in_all_ = 0;  // above kGroupRecordsMax, grouped_ is dropped
};

}  // namespace downpour::chief
