#include "ps/core/commits.h"

#include <algorithm>
#include <utility>

#include "shared/base/defence.h"

namespace downpour::ps {
namespace {

/// Returns what a replica adds to the divisor of a step.
double divisor_of(StepDivisor divisor, const StagedReplica& staged) {
  switch (divisor) {
    case StepDivisor::kNone:
      return 0;
    case StepDivisor::kWeight:
      return staged.pushes.front().metrics.empty() ? 0
                                                   : staged.pushes.front().metrics.front().weight;
    case StepDivisor::kRecords:
      return staged.records;
    case StepDivisor::kRecordsOfRow:
      return 0;
  }
  return 0;
}

}  // namespace

Result<void> Commits::check(const wire::Push& push) const {
  if (push.end) return {};
  if (push.replica >= config_.steps->replicas) {
    return malformed(
        str("a batch of replica ", push.replica, ", but the job has ", config_.steps->replicas));
  }
  if (config_.steps->in_turn && push.batch.shard % config_.steps->replicas != push.replica) {
    return malformed(
        str("a batch of shard ", push.batch.shard, ", which is not of replica ", push.replica));
  }
  if (push.step == 0 && !push.quarantined) return malformed("a batch without a step");
  return {};
}

bool Commits::is_next(const wire::Push& push, PartitionId p) const {
  return push.quarantined || push.step == partitions_.next_steps()[raw(p)];
}

Result<StepStage::Added> Commits::stage(PeerKey from, RequestId request, const wire::Push& push,
                                        const Bits& covered, const Bits& parts,
                                        std::vector<StagedPush::Payload> payloads, Turn& turn) {
  const uint32_t number = config_.steps->number_of(push);
  const StagedReplica* const there = stage_.find(number);
  const bool replaces = there != nullptr && push.batch < there->batch;
  if (replaces && std::ranges::count(added_, number, &wire::StepPart::replica) > 0) {
    ask_for_all(turn);
  } else if (replaces) {
    leave_out(*there, turn);
  }
  const bool had_all = stage_.has(number, push.batch, partitions_.stepped());
  const bool early = config_.steps->backups == 0 && !is_next_to_add(number, push.batch);
  const StepStage::Added added =
      stage_.add(number, from, request, push, covered, parts, std::move(payloads),
                 early ? early_bytes_max() : UINT64_MAX);
  stats_.step_bytes_max = std::max(stats_.step_bytes_max, stage_.bytes() + sum_.bytes());
  if (added == StepStage::Added::kFull || sum_.bytes() > config_.limits.step_bytes_max) {
    return Error{ErrorCode::kUnavailable,
                 str("the parts of a step need more than the ", config_.limits.step_bytes_max >> 20,
                     " MiB that a ps core may stage; lower train.replicas or use more ps")};
  }
  if (added == StepStage::Added::kStaged) add_up(turn);
  const bool completes = !had_all && stage_.has(number, push.batch, partitions_.stepped());
  if (completes && stage_.complete(partitions_.stepped()).size() >= expected_) report(turn);
  return added;
}

void Commits::on_shard_end(Turn& turn) {
  expected_ = 0;
  report(turn);
}

void Commits::report(Turn& turn) const {
  if (!stage_.empty()) report_stage(turn);
}

void Commits::report_stage(Turn& turn) const {
  wire::Staged staged{.step = partitions_.next_step(),
                      .parts = stage_.complete(partitions_.stepped()),
                      .expects = expect_.version};
  // The chief learns also without a complete part which Expect the core knows.
  if (staged.step != 0 && (!staged.parts.empty() || config_.steps->backups == 0))
    turn.send(kChiefPeer, RequestId{}, std::move(staged));
}

void Commits::clear() {
  stage_.clear();
  begin_sum();
  expect_ = {};
  waiting_.reset();
  last_ = {};
  expected_ = 0;
}

void Commits::begin_sum() {
  sum_.begin();
  added_.clear();
  adding_ = false;
  finished_ = false;
}

void Commits::on_markers(Turn& turn) {
  if (!enabled()) return;
  const QuarantineMarkers& markers = partitions_.markers();
  const auto agrees = [&](const StagedReplica& staged) {
    bool all = true;
    for_each(staged.covered, [&](PartitionId p) {
      all = all && markers.quarantines(staged.batch, p) == staged.quarantined &&
            markers.quarantined_count(staged.batch.shard_id(), p) == staged.batches_quarantined;
    });
    return all;
  };
  const bool stays = std::ranges::all_of(
      added_, [&](const wire::StepPart& part) { return agrees(*stage_.find(part.replica)); });
  if (stage_.empty()) return;
  if (stays) {
    stage_.keep(agrees);
  } else {
    ask_for_all(turn);
  }
  // The chief must not commit what it knows from before.
  report_stage(turn);
}

void Commits::on_commit(const wire::Envelope& envelope, const wire::Commit& commit, Turn& turn) {
  const uint64_t next = partitions_.next_step();
  const bool applied = none(partitions_.stepped()) || commit.step + 1 == next;
  if (applied && commit.measure) return;  // a late copy
  if (applied && last_.step == commit.step && last_ != commit) {
    // After a rollback the step may have other batches than in a Commit from before.
    if (envelope.view < partitions_.ownership_generation_max()) return;
    stats_.keep_failure(
        Error{ErrorCode::kBug,
              str("step ", commit.step, " was committed twice, with different batches")});
    return;
  }
  if (applied) {
    if (last_.step == commit.step) defended(Defence::kPsCommitRepeated);
    return turn.send(kChiefPeer, envelope.request, wire::Committed{commit.step});
  }
  if (envelope.view != session_.view().id || commit.step != next || !applies(commit)) {
    return;
  }
  if (commit.measure) return measure(envelope, commit, turn);
  if (saving_.waits()) {
    waiting_ = {envelope, commit};
    return;
  }
  if (!finish_sum(commit, turn)) return;
  apply(commit, turn);
  if (!stats_.failure) turn.send(kChiefPeer, envelope.request, wire::Committed{commit.step});
}

void Commits::continue_after_copy(Turn& turn) {
  if (!waiting_ || saving_.waits()) return;
  const Waiting waiting = *std::exchange(waiting_, std::nullopt);
  on_commit(waiting.envelope, waiting.commit, turn);
}

/// Returns whether every part of the step is staged at all partitions, and all are served.
bool Commits::applies(const wire::Commit& commit) const {
  if (partitions_.owned() != partitions_.serving()) return false;
  return std::ranges::all_of(commit.parts, [&](const wire::StepPart& part) {
    return stage_.has(part.replica, part.batch, partitions_.stepped());
  });
}

/// Returns what is staged for the parts of a step.
std::vector<const StagedReplica*> Commits::replicas_of(const wire::Commit& commit) const {
  std::vector<const StagedReplica*> replicas;
  for (const wire::StepPart& part : commit.parts) replicas.push_back(stage_.find(part.replica));
  return replicas;
}

/// Adds the payloads that are staged under a number to the sum.
void Commits::add_to_sum(uint32_t number) {
  const bool of_rows = config_.steps->divisor == StepDivisor::kRecordsOfRow;
  const StagedReplica* const staged = stage_.find(number);
  const float row_weight = of_rows && staged != nullptr ? float(staged->records) : 0;
  stage_.use_payloads(number, [&](const StagedPush& push) { sum_.add(push, row_weight); });
}

/// Adds the parts of the step that are not in the sum yet, and divides the sum. Returns false if
/// the sum has other parts: then all are sent again.
bool Commits::finish_sum(const wire::Commit& commit, Turn& turn) {
  const bool fits = added_.size() <= commit.parts.size() &&
                    std::equal(added_.begin(), added_.end(), commit.parts.begin());
  if (!fits || (finished_ && added_ != commit.parts)) {
    ask_for_all(turn);
    return false;
  }
  if (std::exchange(finished_, true)) return true;
  double divisor = 0;
  for (const wire::StepPart& part : commit.parts) {
    add_to_sum(part.replica);
    divisor += divisor_of(config_.steps->divisor, *stage_.find(part.replica));
  }
  added_ = commit.parts;
  adding_ = false;
  sum_.finish(divisor, config_.steps->clip_value);
  return true;
}

void Commits::measure(const wire::Envelope& envelope, const wire::Commit& commit, Turn& turn) {
  const Bits& stepped = partitions_.stepped();
  if (!finish_sum(commit, turn)) return;
  wire::Committed answer{.step = commit.step, .measured = true, .partitions = {}};
  for_each(stepped, [&](PartitionId p) { answer.partitions.push_back(p); });
  turn.send(kChiefPeer, envelope.request, std::move(answer),
            Bytes::of(sum_.squares(stepped, config_.steps->clip_groups)));
}

void Commits::apply(const wire::Commit& commit, Turn& turn) {
  const Bits& stepped = partitions_.stepped();
  const std::vector<const StagedReplica*> replicas = replicas_of(commit);
  sum_.scale(commit.factors);
  const std::vector<Piece>& sum = sum_.pieces();
  if (Result<void> room = memory_.make_room(sum); !room) {
    return stats_.keep_failure(room);
  }
  // All batches of a step are of one epoch, and their leases state the same number of reductions.
  const uint32_t reductions = replicas.empty() ? 0 : replicas.front()->rate_reductions;
  for (const Piece& piece : sum) ps::apply(partitions_, piece, nullptr, reductions);
  Watermarks& watermarks = partitions_.watermarks();
  for (const StagedReplica* staged : replicas) {
    watermarks.advance(staged->batch, stepped, staged->records, staged->records_hash, staged->from);
    const PartitionId p{staged->batch.shard % partitions_.count()};
    for (const StagedPush& push : staged->pushes) {
      if (!push.metrics.empty() && contains(push.parts, p))
        watermarks.add_metrics(staged->batch.epoch, p, push.metrics);
    }
    stats_.staleness[0] += count(stepped);
  }
  partitions_.step(stepped);
  for (const StagedReplica* staged : replicas) {
    for (const StagedReplica::Waiting& waiting : staged->waiting) {
      turn.send(waiting.from, waiting.request,
                wire::PushReply{.batch = staged->batch,
                                .applied = {waiting.covered},
                                .others = {},
                                .view = session_.view().id});
    }
  }
  begin_sum();
  for (const RefusedPush& push : stage_.refused()) {
    if (!push.asked) ask_again(push, turn);
  }
  stage_.refused().clear();
  // A part that is staged and not committed was computed for the step that is over.
  for (const wire::StepPart& part : commit.parts) stage_.erase(part.replica);
  stage_.keep([&](const StagedReplica& staged) {
    if (!staged.quarantined) leave_out(staged, turn);
    return staged.quarantined;
  });
  last_ = commit;
  expected_ = commit.parts.size() - std::min<size_t>(commit.parts.size(), config_.steps->backups);
}

/// Answers the pushes of a batch that the next step will not have as it is staged.
void Commits::leave_out(const StagedReplica& staged, Turn& turn) const {
  defended(Defence::kPsStepLeftOut);
  for (const StagedReplica::Waiting& waiting : staged.waiting) {
    answer(waiting.from, waiting.request, staged.batch, waiting.covered,
           wire::PartStatus::kOtherStep, turn);
  }
}

/// Answers a push with the same status for all of these parts.
void Commits::answer(PeerKey to, RequestId request, BatchId batch, const Bits& parts,
                     wire::PartStatus status, Turn& turn) const {
  wire::PushReply reply{.batch = batch, .view = session_.view().id};
  for_each(parts, [&](PartitionId p) { reply.others.push_back({p, status, batch.batch}); });
  turn.send(to, request, std::move(reply));
}

/// Asks for a push that was refused.
void Commits::ask_again(const RefusedPush& push, Turn& turn) const {
  answer(push.from, push.request, push.batch, push.parts, wire::PartStatus::kSendAgain, turn);
}

}  // namespace downpour::ps
