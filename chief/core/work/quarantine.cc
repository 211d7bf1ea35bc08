#include "chief/core/work/quarantine.h"

#include <utility>

namespace downpour::chief {

bool Quarantine::propose(BatchId batch, std::string why) {
  if (markers_.contains(batch)) return false;
  markers_[batch] = {.why = std::move(why)};
  wants_round_ = true;
  return true;
}

const Quarantine::Marker* Quarantine::find(BatchId batch) const {
  const auto at = markers_.find(batch);
  return at == markers_.end() ? nullptr : &at->second;
}

std::vector<wire::QuarantineMarker> Quarantine::markers() const {
  std::vector<wire::QuarantineMarker> markers;
  for (const auto& [batch, marker] : markers_) {
    markers.push_back({batch, marker.state == State::kWithdrawn, false});
  }
  return markers;
}

void Quarantine::begin_round() {
  wants_round_ = false;
  for (auto& [batch, marker] : markers_) marker.sent = true;
}

std::vector<Quarantine::Decision> Quarantine::end_round(
    const std::vector<wire::QuarantineMarker>& answers) {
  // Partitions that were assigned before all markers were known are awaiting them.
  if (!std::exchange(known_, true)) wants_round_ = true;
  std::map<BatchId, wire::QuarantineMarker> answered;
  for (const wire::QuarantineMarker& answer : answers) {
    answered[answer.batch] = answer;
    if (!markers_.contains(answer.batch)) {
      markers_[answer.batch] = {};
      wants_round_ = true;
    }
  }
  std::vector<Decision> decisions;
  for (auto& [batch, marker] : markers_) {
    if (marker.state != State::kProposed) continue;
    if (!marker.sent) {
      wants_round_ = true;
      continue;
    }
    const auto answer = answered.find(batch);
    const bool counts =
        answer != answered.end() && (answer->second.had || answer->second.withdrawn);
    marker.state = counts ? State::kWithdrawn : State::kQuarantined;
    // Partitions that refuse the batch must learn that its marker is withdrawn.
    if (counts) wants_round_ = true;
    decisions.push_back({batch, marker.state, marker.why});
  }
  return decisions;
}

std::vector<uint32_t> Quarantine::quarantined_batches(ShardId shard) const {
  std::vector<uint32_t> batches;
  for (auto at = markers_.lower_bound({shard.epoch, shard.shard, 0});
       at != markers_.end() && at->first.shard_id() == shard; ++at) {
    if (at->second.state == State::kQuarantined) batches.push_back(at->first.batch);
  }
  return batches;
}

void Quarantine::forget_below(uint32_t epoch) {
  markers_.erase(markers_.begin(), markers_.lower_bound({epoch, 0, 0}));
}

}  // namespace downpour::chief
