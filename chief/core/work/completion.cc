#include "chief/core/work/completion.h"

#include <algorithm>
#include <map>

#include "shared/base/defence.h"
#include "shared/plan/shard.h"

namespace downpour::chief {

CompletionRound::CompletionRound(uint64_t round, uint32_t epoch, const EpochExtent& extent,
                                 const wire::View& view)
    : round_(round), epoch_(epoch), extent_(extent), view_(view), replies_(view.owners.size()) {}

CompletionRound::Verdict CompletionRound::take(uint32_t owner, wire::StatusReply&& reply,
                                               std::string& why) {
  const bool late = owner >= replies_.size() ||  // no round is running
                    reply.round != round_ || reply.epoch != epoch_ || replies_[owner];
  if (late) {
    defended(Defence::kChiefRoundLate);
    return Verdict::kIgnored;
  }
  if (!reply.failure.empty()) {
    why = reply.failure;
    return Verdict::kFailed;
  }
  why = fault(owner, reply);
  if (!why.empty()) {
    defended(Defence::kChiefRoundVoid);
    return Verdict::kVoid;
  }
  replies_[owner] = std::move(reply);
  ++answered_;
  return Verdict::kTaken;
}

std::string CompletionRound::interval_fault(const char* which,
                                            const std::vector<wire::Interval>& intervals) const {
  const uint32_t most = extent_.open ? plan::kOpenShardsMax : extent_.shards;
  uint32_t at = 0;
  for (const wire::Interval& interval : intervals) {
    if (interval.begin < at || interval.end < interval.begin || interval.end > most) {
      return str("its ", which, " shards [", interval.begin, ", ", interval.end,
                 ") are out of order or beyond ", most);
    }
    at = interval.end;
  }
  return {};
}

/// Returns why this reply voids the round; empty if it is valid.
std::string CompletionRound::fault(uint32_t owner, const wire::StatusReply& reply) const {
  if (reply.view != view_.id) return str("it has view ", reply.view, ", not ", view_.id);
  std::vector<bool> told(view_.partitions.size());
  for (const wire::PartitionStatus& status : reply.partitions) {
    const uint32_t p = raw(status.partition);
    if (p >= told.size() || view_.partitions[p].owner != owner)
      return str("partition ", p, " belongs to another ps");
    if (told[p]) return str("it reports partition ", p, " twice");
    if (status.ownership_generation != view_.partitions[p].ownership_generation) {
      return str("it has partition ", p, " with ownership generation ", status.ownership_generation,
                 ", not ", view_.partitions[p].ownership_generation);
    }
    told[p] = true;
  }
  for (uint32_t p = 0; p < told.size(); ++p) {
    if (view_.partitions[p].owner == owner && !told[p])
      return str("it does not report its partition ", p);
  }
  std::string why = interval_fault("ended", reply.ended);
  return why.empty() ? interval_fault("begun", reply.begun) : why;
}

/// Returns the number of shards of the epoch. While the end of an open stream is not known, it
/// includes further shards that partitions have begun, and one more.
uint32_t CompletionRound::shards_told() const {
  if (!extent_.length_unknown) return extent_.shards;
  uint32_t told = 0;
  for (const auto& reply : replies_) {
    for (const auto* intervals : {&reply->ended, &reply->begun}) {
      if (!intervals->empty()) told = std::max(told, intervals->back().end);
    }
  }
  return std::min(std::max(extent_.shards, told + 1), plan::kOpenShardsMax);
}

Result<RoundOutcome> CompletionRound::judge() const {
  DP_CHECK(all_in());
  constexpr uint32_t kEnded = UINT32_MAX;
  const uint32_t shards = shards_told();
  RoundOutcome outcome{.shards = shards};
  std::map<BatchId, wire::QuarantineMarker> markers;
  std::vector<uint32_t> first_batch(shards, kEnded);
  std::vector<bool> begun(shards, false);
  for (size_t owner = 0; owner < replies_.size(); ++owner) {
    const wire::StatusReply& reply = *replies_[owner];
    if (reply.partitions.empty()) continue;  // this core owns no partition
    std::vector<uint32_t> watermark(shards, 0);
    for (const wire::ShardWatermark& open : reply.open) {
      if (open.shard < shards) watermark[open.shard] = open.watermark;
    }
    const auto mark = [&](auto& of, const wire::Interval& interval, auto value) {
      std::fill(of.begin() + std::min(interval.begin, shards),
                of.begin() + std::min(interval.end, shards), value);
    };
    for (const wire::Interval& interval : reply.ended) mark(watermark, interval, kEnded);
    for (const wire::Interval& interval : reply.begun) mark(begun, interval, true);
    for (uint32_t shard = 0; shard < shards; ++shard) {
      first_batch[shard] = std::min(first_batch[shard], watermark[shard]);
    }
    outcome.partitions.insert(outcome.partitions.end(), reply.partitions.begin(),
                              reply.partitions.end());
    if (outcome.metrics.size() < reply.metrics.size()) outcome.metrics.resize(reply.metrics.size());
    for (size_t i = 0; i < reply.metrics.size(); ++i) outcome.metrics[i] += reply.metrics[i];
    for (const wire::QuarantineMarker& marker : reply.markers) {
      wire::QuarantineMarker& merged = markers[marker.batch];
      merged = {marker.batch, merged.withdrawn || marker.withdrawn, merged.had || marker.had,
                merged.passed || marker.passed};
    }
  }
  for (const auto& [batch, marker] : markers) outcome.markers.push_back(marker);
  for (uint32_t shard = 0; shard < shards; ++shard) {
    if (first_batch[shard] != kEnded)
      outcome.lacking.push_back({shard, first_batch[shard], begun[shard]});
  }
  std::sort(outcome.partitions.begin(), outcome.partitions.end(),
            [](const auto& a, const auto& b) { return a.partition < b.partition; });
  if (!outcome.lacking.empty()) return outcome;
  for (const wire::PartitionStatus& status : outcome.partitions) {
    const bool all =
        status.shards_ended == shards || (extent_.open && status.shards_ended > shards);
    if (!all) {
      return Error{ErrorCode::kBug,
                   str("partition ", status.partition, " counts ", status.shards_ended,
                       " ended shards of epoch ", epoch_ + 1, ", but its ps reports all ", shards)};
    }
  }
  return outcome;
}

}  // namespace downpour::chief
