#include "chief/core/quarantine.h"

#include <utility>

namespace downpour::chief {

bool Quarantine::propose(BatchId batch, std::string why) {
  if (lines_.contains(batch)) return false;
  lines_[batch] = {.why = std::move(why)};
  wants_round_ = true;
  return true;
}

const Quarantine::Line* Quarantine::find(BatchId batch) const {
  const auto at = lines_.find(batch);
  return at == lines_.end() ? nullptr : &at->second;
}

std::vector<wire::QuarantineLine> Quarantine::lines() const {
  std::vector<wire::QuarantineLine> lines;
  for (const auto& [batch, line] : lines_) {
    lines.push_back({batch, line.state == State::kWithdrawn, false});
  }
  return lines;
}

void Quarantine::begin_round() {
  wants_round_ = false;
  for (auto& [batch, line] : lines_) line.told = true;
}

std::vector<Quarantine::Decision> Quarantine::end_round(
    const std::vector<wire::QuarantineLine>& answers) {
  // Partitions that a chief gave to a core before it knew every line wait to be told.
  if (!std::exchange(known_, true)) wants_round_ = true;
  std::map<BatchId, wire::QuarantineLine> answered;
  for (const wire::QuarantineLine& answer : answers) {
    answered[answer.batch] = answer;
    if (!lines_.contains(answer.batch)) {
      lines_[answer.batch] = {};
      wants_round_ = true;
    }
  }
  std::vector<Decision> decisions;
  for (auto& [batch, line] : lines_) {
    if (line.state != State::kProposed) continue;
    if (!line.told) {
      wants_round_ = true;
      continue;
    }
    const auto answer = answered.find(batch);
    const bool counts =
        answer != answered.end() && (answer->second.had || answer->second.withdrawn);
    line.state = counts ? State::kWithdrawn : State::kGivenUp;
    if (counts) wants_round_ = true;  // those that refuse it hear that they need not
    decisions.push_back({batch, line.state, line.why});
  }
  return decisions;
}

std::vector<uint32_t> Quarantine::given_up(ShardId shard) const {
  std::vector<uint32_t> batches;
  for (auto at = lines_.lower_bound({shard.epoch, shard.shard, 0});
       at != lines_.end() && at->first.shard_id() == shard; ++at) {
    if (at->second.state == State::kGivenUp) batches.push_back(at->first.batch);
  }
  return batches;
}

void Quarantine::forget_below(uint32_t epoch) {
  lines_.erase(lines_.begin(), lines_.lower_bound({epoch, 0, 0}));
}

}  // namespace downpour::chief
