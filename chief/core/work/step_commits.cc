#include "chief/core/work/step_commits.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::chief {
namespace {

// A worker reports nothing of a round before all of its batches are computed.
constexpr int64_t kBatchStallNs = kSecond;

const wire::StepPart* part_of(const wire::Staged& staged, uint32_t number) {
  const auto found = std::ranges::find(staged.parts, number, &wire::StepPart::replica);
  return found == staged.parts.end() ? nullptr : &*found;
}

}  // namespace

/// Returns what an owner has staged for the next step of a replica whose first open shard is
/// `shard`; null if nothing. With backups a batch is staged under its shard.
const wire::StepPart* StepCommits::staged_part(const wire::Staged& staged, uint32_t replica,
                                               uint32_t shard) const {
  return staged.step == next_ ? part_of(staged, backups_ > 0 ? shard : replica) : nullptr;
}

StepCommits::StepCommits(const ChiefConfig& config)
    : config_(config),
      replicas_(config.mode == wire::Purpose::kTrain
                    ? uint32_t(config.job.train.replicas.value_or(0))
                    : 0),
      backups_(config.job.train.backups),
      grouped_(traits_of(config.job.train.mode).has_groups),
      stall_ns_(std::max(config.lease_stall_ns,
                         kBatchStallNs * int64_t(config.job.train.whole_epochs()
                                                     ? config.share_batches
                                                     : config.job.train.sync_every.value_or(0)))),
      left_out_(replicas_),
      expect_{.version = uint64_t{config.term} << 32, .parts = {}},
      outbox_(config.resend_ns),
      norms_(config) {}

void StepCommits::on_view(const wire::View& view, bool rolled_back) {
  staged_.assign(view.owners.size(), {});
  known_.assign(view.owners.size(), 0);
  stages_.assign(view.owners.size(), !grouped_);
  for (uint32_t p = 0; grouped_ && p < view.partitions.size(); ++p) {
    if (has_steps(PartitionId{p}, view.partitions.size())) stages_[view.partitions[p].owner] = true;
  }
  if (!rolled_back) return;
  rolled_back_ = view.id;
  left_out_ = LeftOut(replicas_);
  drop();
  next_ = 0;
}

Result<void> StepCommits::take_versions(const RoundOutcome& outcome) {
  if (!enabled() || outcome.partitions.empty()) return {};
  // Those with steps come first.
  const auto end = std::ranges::find_if(outcome.partitions, [&](const auto& status) {
    return !has_steps(status.partition, outcome.partitions.size());
  });
  const auto [least, most] = std::ranges::minmax_element(outcome.partitions.begin(), end, {},
                                                         &wire::PartitionStatus::version);
  if (least->version != most->version) {
    return Error{ErrorCode::kBug,
                 str("partition ", least->partition, " is at step ", least->version,
                     ", but partition ", most->partition, " is at step ", most->version)};
  }
  next_ = least->version + 1;
  return {};
}

void StepCommits::take(uint32_t owner, wire::Staged&& staged) {
  if (owner >= staged_.size()) return;
  known_[owner] = staged.expects;
  staged_[owner] = std::move(staged);
}

const wire::Expect* StepCommits::expect(const LeaseTable& table) {
  if (backups_ > 0) return nullptr;
  std::vector<wire::StepPart> parts;
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    const std::optional<uint32_t> shard = table.first_open_of(replica);
    if (shard) parts.push_back({replica, {table.epoch(), *shard, 0}});
  }
  if (parts != expect_.parts) expect_ = {.version = expect_.version + 1, .parts = std::move(parts)};
  return &expect_;
}

Result<std::optional<wire::Commit>> StepCommits::due(const LeaseTable& table) const {
  const std::optional<wire::Commit> none;
  if (next_ == 0 || !quiet() || staged_.empty()) return none;
  wire::Commit commit{.step = next_, .parts = {}};
  const uint32_t active = table.active_replicas();
  const uint32_t wanted = backups_ < active ? active - backups_ : std::min(active, 1U);
  uint32_t missing = 0;
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    const std::optional<uint32_t> shard = table.first_open_of(replica);
    if (!shard) continue;  // the replica is done, or waits for a shard
    const wire::StepPart* found = nullptr;
    for (size_t owner = 0; owner < staged_.size(); ++owner) {
      if (!stages_[owner]) continue;
      const wire::Staged& staged = staged_[owner];
      const wire::StepPart* part = staged_part(staged, replica, *shard);
      // The shard-end marker of an earlier shard is missing, or the part is of a lease that ended.
      if (part != nullptr && part->batch.shard_id() != ShardId{table.epoch(), *shard}) {
        defended(Defence::kChiefStagedEarly);
        part = nullptr;
      }
      if (part == nullptr) {
        found = nullptr;
        break;
      }
      if (found != nullptr && *found != *part) {
        return Error{ErrorCode::kBug,
                     str("two ps have staged different batches of replica ", replica, " for step ",
                         next_, ": ", part->batch, " and ", found->batch)};
      }
      found = part;
    }
    if (found != nullptr) {
      commit.parts.push_back(*found);
    } else if (++missing > active - wanted) {
      return none;
    }
  }
  if (commit.parts.empty() || commit.parts.size() < wanted) return none;
  std::ranges::sort(commit.parts);
  return std::optional(std::move(commit));
}

wire::Commit StepCommits::begin(wire::Commit&& due) {
  due.measure = norms_.needed();
  if (due.measure) norms_.begin(due);
  return std::move(due);
}

std::optional<wire::Commit> StepCommits::on_measured(const Member& by,
                                                     const wire::Committed& measured,
                                                     const Bytes& squares) {
  if (measured.step != next_ || !norms_.collecting() || !outbox_.waits_for(by)) return {};
  if (!norms_.take(measured, squares)) return {};
  outbox_.answered(by);
  if (!quiet()) return {};
  return norms_.finish();
}

bool StepCommits::has_staged(const LeaseTable& table, uint32_t replica) const {
  const std::optional<uint32_t> shard = table.first_open_of(replica);
  return shard && std::ranges::all_of(staged_, [&](const wire::Staged& staged) {
           if (!stages_[size_t(&staged - staged_.data())]) return true;
           const wire::StepPart* part = staged_part(staged, replica, *shard);
           return part != nullptr && part->batch.shard_id() == ShardId{table.epoch(), *shard};
         });
}

void StepCommits::sent(const Turn& turn, const Member& to, const wire::Commit& commit) {
  outbox_.put(turn.now_ns(), to, commit);
  sent_ns_ = turn.now_ns();
}

bool StepCommits::drop_overdue(const Turn& turn, bool copying) {
  if (copying) sent_ns_ = turn.now_ns();
  if (quiet() || turn.now_ns() - sent_ns_ <= config_.lease_stall_ns) return false;
  drop();
  return true;
}

bool StepCommits::on_committed(const Turn& turn, const Member& by,
                               const wire::Committed& committed) {
  if (committed.step != next_ || norms_.collecting() || !outbox_.waits_for(by)) return false;
  outbox_.answered(by);
  if (!quiet()) return false;
  ++next_;
  moved_ns_ = turn.now_ns();
  return true;
}

std::vector<uint32_t> StepCommits::stalled(const Turn& turn, const LeaseTable& table) {
  if (table.leased_count() == 0 || !quiet()) moved_ns_ = turn.now_ns();
  std::vector<uint32_t> shards;
  if (turn.now_ns() - moved_ns_ <= stall_ns_) return shards;
  moved_ns_ = turn.now_ns();
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    if (!table.first_open_of(replica) || has_staged(table, replica)) continue;
    const std::vector<uint32_t> leased = table.leased_of(replica);
    shards.insert(shards.end(), leased.begin(), leased.end());
    // The parts of later replicas may have been refused until those of this one are in the sum.
    if (backups_ == 0 && !leased.empty()) break;
  }
  return shards;
}

}  // namespace downpour::chief
