#include "chief/core/work/prediction.h"

namespace downpour::chief {

PredictionRun::Verdict PredictionRun::take(const wire::PredictReport& report, Bytes&& values) {
  const uint32_t shard = report.lease.shard.shard;
  Attempt& attempt = open_[shard];
  if (attempt.attempt != report.lease.attempt)
    attempt = {.attempt = report.lease.attempt, .batches = {}};
  const size_t expected = attempt.batches.size();
  if (report.batch < expected) return Verdict::kRepeated;
  if (report.batch > expected) {
    drop(shard);
    return Verdict::kBroken;
  }
  attempt.batches.push_back({.shard = shard,
                             .batch = report.batch,
                             .records = report.records,
                             .values = std::move(values),
                             .ended = report.ended});
  if (!report.ended) return Verdict::kKept;
  whole_.emplace(shard, std::move(attempt.batches));
  drop(shard);
  return Verdict::kWhole;
}

std::vector<PredictionBatch> PredictionRun::next_in_order() {
  std::vector<PredictionBatch> ready;
  for (auto next = whole_.find(emitted_); next != whole_.end(); next = whole_.find(emitted_)) {
    for (PredictionBatch& batch : next->second) {
      records_ += batch.records;
      ready.push_back(std::move(batch));
    }
    whole_.erase(next);
    ++emitted_;
  }
  return ready;
}

}  // namespace downpour::chief
