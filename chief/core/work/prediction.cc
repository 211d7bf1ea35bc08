#include "chief/core/work/prediction.h"

namespace downpour::chief {

PredictionRun::Verdict PredictionRun::take(const wire::PredictReport& report, Bytes&& values) {
  const uint32_t shard = report.lease.shard.shard;
  Attempt& attempt = open_[shard];
  if (attempt.attempt != report.lease.attempt)
    attempt = {.attempt = report.lease.attempt, .batches = {}};
  const bool added = attempt.batches
                         .try_emplace(report.batch, PredictionBatch{.shard = shard,
                                                                    .batch = report.batch,
                                                                    .records = report.records,
                                                                    .values = std::move(values),
                                                                    .ended = report.ended})
                         .second;
  if (!added) return Verdict::kRepeated;
  if (!report.ended) return Verdict::kKept;
  const bool whole = attempt.batches.size() == size_t{report.batch} + 1 &&
                     attempt.batches.rbegin()->first == report.batch;
  if (whole) {
    std::vector<PredictionBatch> batches;
    for (auto& [number, batch] : attempt.batches) batches.push_back(std::move(batch));
    whole_.emplace(shard, std::move(batches));
  }
  drop(shard);
  return whole ? Verdict::kWhole : Verdict::kBroken;
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
