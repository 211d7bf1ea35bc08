// EvaluationRun: the metrics of one evaluation, merged in shard order whatever the order of the
// reports.
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

  /// Each shard once: the caller keeps the table of which have ended.
  void take(uint32_t shard, wire::EvalReport&& report);
  /// When every shard was taken.
  Evaluation finish(int64_t now_ns);

 private:
  void merge(const wire::EvalReport& report);

  uint32_t id_ = 0;
  uint32_t epochs_trained_ = 0;
  int64_t begin_ns_ = 0;
  uint32_t merged_ = 0;                           // shards below it are in the sums
  std::map<uint32_t, wire::EvalReport> waiting_;  // those above, until the ones before them come
  wire::ShardCounts counts_;
  std::vector<OutputMetrics> outputs_;
};

}  // namespace downpour::chief
