#include "ps/core/step_stage.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::ps {

uint64_t StepStage::bytes_of(const std::vector<StagedPush::Payload>& payloads) {
  uint64_t bytes = 0;
  for (const StagedPush::Payload& payload : payloads)
    bytes += payload.keys.size() + payload.values.size();
  return bytes;
}

/// Keeps the request of a push that was refused. A worker that repeats it has one request.
void StepStage::refuse(RefusedPush&& push) {
  defended(Defence::kPsStepRefused);
  std::erase_if(refused_, [&](const RefusedPush& known) {
    return known.from == push.from && known.number == push.number && known.parts == push.parts;
  });
  if (refused_.size() >= limits_.stages_max) return;  // the worker sends it again by itself
  const auto place = std::ranges::upper_bound(refused_, push.number, {}, &RefusedPush::number);
  refused_.insert(place, std::move(push));
}

StepStage::Added StepStage::add(uint32_t number, PeerKey from, RequestId request,
                                const wire::Push& push, const Bits& covered, const Bits& parts,
                                std::vector<StagedPush::Payload> payloads, uint64_t room) {
  const auto there = replicas_.find(number);
  if (there == replicas_.end() && replicas_.size() >= limits_.step_parts_max)
    return Added::kOtherBatch;
  if (there != replicas_.end() && there->second.batch != push.batch) {
    if (there->second.batch < push.batch) return Added::kOtherBatch;
    erase(number);
  }
  const uint64_t bytes = bytes_of(payloads);
  if (bytes_ + bytes > limits_.step_bytes_max) return Added::kFull;
  if (bytes > 0 && bytes_ + bytes > room && !has(number, push.batch, parts)) {
    refuse({number, push.batch, from, request, parts, bytes});
    return Added::kRefused;
  }
  std::erase_if(refused_, [&](const RefusedPush& known) {
    return known.from == from && known.number == number && known.parts == parts;
  });
  StagedReplica& replica = replicas_[number];
  if (replica.pushes.empty()) {
    replica.batch = push.batch;
    replica.quarantined = push.quarantined;
    replica.batches_quarantined = push.batches_quarantined;
    replica.records = push.records;
    replica.records_hash = push.records_hash;
    replica.rate_reductions = push.rate_reductions;
    replica.from = from;
    replica.covered.assign(parts.size(), 0);
  }
  const auto waiting =
      std::ranges::find_if(replica.waiting, [&](const StagedReplica::Waiting& known) {
        return known.from == from && known.covered == parts;
      });
  if (waiting != replica.waiting.end()) {
    waiting->request = request;
  } else if (replica.waiting.size() < limits_.stages_max) {  // otherwise the worker asks again
    replica.waiting.push_back({from, request, parts});
  }
  Bits fresh = parts;
  for (size_t w = 0; w < fresh.size(); ++w) fresh[w] &= ~replica.covered[w];
  if (none(fresh)) {
    defended(Defence::kPsStepStagedAgain);
    return Added::kStaged;
  }
  defended(Defence::kPsStepStaged);
  for (size_t w = 0; w < fresh.size(); ++w) replica.covered[w] |= fresh[w];
  const bool whole = fresh == covered;
  replica.pushes.push_back({.parts = std::move(fresh),
                            .whole = whole,
                            .payloads = std::move(payloads),
                            .metrics = push.metrics});
  bytes_ += bytes;
  return Added::kStaged;
}

bool StepStage::has(uint32_t number, BatchId batch, const Bits& parts) const {
  const StagedReplica* staged = find(number);
  return staged != nullptr && staged->batch == batch && within(parts, staged->covered);
}

std::vector<wire::StepPart> StepStage::complete(const Bits& owned) const {
  std::vector<wire::StepPart> parts;
  for (const auto& [number, staged] : replicas_) {
    if (within(owned, staged.covered)) parts.push_back({number, staged.batch});
  }
  return parts;
}

const StagedReplica* StepStage::find(uint32_t number) const {
  const auto staged = replicas_.find(number);
  return staged == replicas_.end() ? nullptr : &staged->second;
}

void StepStage::erase(uint32_t number) {
  const auto staged = replicas_.find(number);
  if (staged == replicas_.end()) return;
  for (const StagedPush& push : staged->second.pushes) bytes_ -= bytes_of(push.payloads);
  replicas_.erase(staged);
}

void StepStage::clear() {
  if (!empty()) defended(Defence::kPsStepCleared);
  replicas_.clear();
  refused_.clear();
  bytes_ = 0;
}

}  // namespace downpour::ps
