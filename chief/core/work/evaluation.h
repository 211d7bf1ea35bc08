// EvaluationRun: the metrics of one evaluation. Reports are merged in shard order, so the result
// does not depend on the order in which they arrive.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "chief/core/events.h"

namespace downpour::chief {

class EvaluationRun {
 public:
  EvaluationRun() = default;
  EvaluationRun(uint32_t id, uint32_t epochs_trained, int64_t begin_ns)
      : id_(id), epochs_trained_(epochs_trained), begin_ns_(begin_ns) {}

  /// Adds the report of one shard. The caller passes each shard only once.
  void take(uint32_t shard, wire::EvalReport&& report);
  /// Returns the evaluation; requires a report of every shard.
  Evaluation finish(int64_t now_ns);

 private:
  void merge(const wire::EvalReport& report);

  uint32_t id_ = 0;
  uint32_t epochs_trained_ = 0;
  int64_t begin_ns_ = 0;
  uint32_t merged_ = 0;                           // shards below this number are in the sums
  std::map<uint32_t, wire::EvalReport> waiting_;  // reports that wait for an earlier shard
  wire::ShardCounts counts_;
  std::vector<OutputMetrics> outputs_;
};

}  // namespace downpour::chief
