// ChiefCore: leases: granting, progress, failures, and revoking.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

namespace {

/// Returns true for errors in the data, the job or the build, which another attempt would only
/// repeat.
bool is_deterministic(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kBadData:
    case ErrorCode::kNoInput:
    case ErrorCode::kUnsupported:
    case ErrorCode::kConfig:
    case ErrorCode::kPermission:
    case ErrorCode::kCannotCreate:
      return true;
    default:
      return false;
  }
}

std::string_view purpose_name(wire::Purpose purpose) {
  switch (purpose) {
    case wire::Purpose::kTrain:
      return "train";
    case wire::Purpose::kEval:
      return "eval";
    case wire::Purpose::kPredict:
      return "predict";
  }
  return "";
}

}  // namespace

void ChiefCore::on_lease_request(Turn& turn, Member& member, const wire::LeaseRequest& request,
                                 RequestId id) {
  if (id != RequestId{} && member.granted == id) {  // the answer was lost
    std::erase_if(member.grant.leases, [&](const wire::Lease& lease) {
      return !table_.holds(member.incarnation(), lease);
    });
    if (!member.grant.leases.empty()) {
      defended(Defence::kChiefGrantRepeated);
      return turn.send(member, member.grant, id);
    }
  }
  wire::LeaseGrant grant;
  if (leasing() && stop_signal_ == 0) {
    grant_leases(turn, member, request.wanted, grant);
    if (!grant.leases.empty() && phase_ == Phase::kTraining) report_.note_training(turn);
  }
  if (grant.leases.empty()) grant.retry_ns = config_.lease_retry_ns;
  member.granted = id;
  member.grant = grant;
  turn.send(member, std::move(grant), id);
}

PassView ChiefCore::pass_view(const Turn& turn) const {
  return {.table = table_,
          .paces = paces_,
          .bytes_of = [this](uint32_t shard) { return bytes_of(shard); },
          .now_ns = turn.now_ns()};
}

void ChiefCore::grant_leases(Turn& turn, const Member& member, uint32_t wanted,
                             wire::LeaseGrant& grant) {
  const Incarnation who = member.incarnation();
  extend_open_pass(turn);
  if (ending()) return;
  // Near the end of a pass a worker gets at most its fair share of the free shards.
  const uint32_t workers = std::max(1U, members_.workers_live());
  const uint32_t fair = (table_.free_count() + workers - 1) / workers;
  const uint32_t held = table_.held_count(who);
  const uint32_t room =
      config_.leases_per_worker_max - std::min(held, config_.leases_per_worker_max);
  const uint32_t limit =
      phase_ == Phase::kPredicting ? table_.first_open() + config_.predict_window : UINT32_MAX;
  const PassView pass = pass_view(turn);
  const auto is_suspect = [&](uint32_t shard) { return table_.entry(shard).failures > 0; };
  const bool fresh = may_begin_shards();
  const auto hand_over = [&](wire::Lease lease, bool backup) {
    if (lease.purpose == wire::Purpose::kTrain) {
      lease.quarantined_batches = quarantine_.quarantined_batches(lease.shard);
      lease.single_step = single_step() && is_suspect(lease.shard.shard);
    }
    log_lease(turn, member, lease, backup);
    grant.leases.push_back(std::move(lease));
  };
  // A worker holds a shard that has failed only as its single shard. So the chief knows where the
  // worker dies.
  const std::vector<uint32_t> in_hand = table_.held_by(who);
  if (single_step() && std::any_of(in_hand.begin(), in_hand.end(), is_suspect)) return;
  for (uint32_t n = std::min({wanted, fair, room}); n > 0; --n) {
    const uint64_t bytes_left = length_unknown_ ? UINT64_MAX : bytes_total_ - bytes_ended_;
    if (!may_hold_more(pass, who, bytes_left)) break;
    const bool suspects = !single_step() || table_.held_count(who) == 0;
    const auto lease =
        table_.grant(turn.now_ns(), who, limit, member.hello.index, suspects, may_begin_shards());
    if (!lease) break;
    hand_over(*lease, false);
    if (grant.leases.back().single_step) break;
  }
  // Predictions have no backup leases, because a shard counts only when one attempt is complete.
  // Streams have none, because one worker at a time reads them.
  const bool none_free = table_.free_count() == 0 || (!fresh && !table_.begun_is_free());
  if (wanted > 0 && room > 0 && none_free && phase_ != Phase::kPredicting && table_.shared() &&
      !DP_MUTATE("no-lease-expiry")) {
    const auto shard = choose_backup(pass, who);
    if (shard && !(single_step() && is_suspect(*shard))) {
      defended(Defence::kChiefBackupLease);
      hand_over(table_.back_up(turn.now_ns(), *shard, who), true);
    }
  }
  if (table_.held_count(who) > 0) paces_.busy(turn.now_ns(), who);
  extend_open_pass(turn);
}

void ChiefCore::log_lease(Turn& turn, const Member& member, const wire::Lease& lease, bool backup) {
  const std::vector<plan::ShardRange> ranges = ranges_of(lease.shard.shard);
  const plan::ShardRange& range = ranges.front();
  JsonLine line = turn.event("lease")
                      .add("purpose", purpose_name(lease.purpose))
                      .add("epoch", lease.shard.epoch)
                      .add("shard", lease.shard.shard)
                      .add("attempt", lease.attempt)
                      .add("backup", backup)
                      .add("evaluation", lease.evaluation)
                      .add("worker", member.hello.index)
                      .add("first_batch", lease.first_batch)
                      .add("file", range.file)
                      .add("begin", range.begin)
                      .add("end", range.end);
  if (ranges.size() > 1) line.add("ranges", ranges.size());
  if (!table_.shared()) line.add("stream", range.stream);
  turn.log(line);
}

void ChiefCore::on_shard_progress(Turn& turn, Member& member, const wire::ShardProgress& progress) {
  const uint32_t shard = progress.lease.shard.shard;
  if (phase_ == Phase::kGathering || phase_ == Phase::kAdopting) return;  // no lease table
  add_shards_of_earlier_chief(progress.lease);
  if (!working() || !table_.covers(progress.lease)) {
    if (!progress.ended) {
      defended(Defence::kChiefLeaseNotHeld);
      turn.send(member, wire::LeaseRevoked{progress.lease});
    }
    return;
  }
  // Registers a lease of an earlier chief. The worker keeps the shard.
  if (claimed_ && stop_signal_ == 0 &&
      (progress.lease.purpose != wire::Purpose::kTrain ||
       progress.lease.quarantined_batches ==
           quarantine_.quarantined_batches(progress.lease.shard))) {
    if (table_.take_up(turn.now_ns(), member.incarnation(), progress.lease))
      defended(Defence::kChiefLeaseTakenUp);
  }
  const bool holds = table_.holds(member.incarnation(), progress.lease);
  if (progress.ended && progress.lease.purpose == wire::Purpose::kTrain) {
    // Accepted from every worker, because every partition has the shard-end marker. The completion
    // round verifies it.
    return end_shard(turn, member, shard, progress.counts);
  }
  if (!holds) {
    defended(Defence::kChiefLeaseNotHeld);
    return turn.send(member, wire::LeaseRevoked{progress.lease});
  }
  advance(turn, member, shard, progress.bytes_done);
  table_.renew(turn.now_ns(), shard, member.incarnation(), progress.batches_acked,
               progress.bytes_done);
}

/// Appends shards of an open stream that an earlier chief leased and this one does not know yet.
void ChiefCore::add_shards_of_earlier_chief(const wire::Lease& lease) {
  constexpr uint32_t kPiecesAheadMax = 1 << 16;
  const uint32_t shards = table_.shard_count();
  const bool of_pass = lease.purpose == wire::Purpose::kTrain &&
                       table_.purpose() == wire::Purpose::kTrain &&
                       lease.shard.epoch == table_.epoch();
  if (!claimed_ || !length_unknown_ || !of_pass || lease.shard.shard < shards) return;
  const uint32_t count = lease.shard.shard - shards + 1;
  if (count <= std::min(kPiecesAheadMax, train_shards() - shards)) add_shards(count);
}

/// Measures a worker's rate by its progress with a shard that it holds.
void ChiefCore::advance(Turn& turn, const Member& member, uint32_t shard, uint64_t bytes_done) {
  const Holder* holder = table_.holder(shard, member.incarnation());
  if (holder == nullptr) return;
  const uint64_t bytes = std::min(bytes_done, bytes_of(shard));
  if (bytes > holder->bytes_done) {
    paces_.advanced(turn.now_ns(), member.incarnation(), bytes - holder->bytes_done);
  }
}

/// Stops measuring a worker that holds no shard.
void ChiefCore::note_idle(Turn& turn, Incarnation worker) {
  if (table_.held_count(worker) == 0) paces_.idle(turn.now_ns(), worker);
}

/// Ends a shard. Leases of other workers on it are revoked.
void ChiefCore::end_shard(Turn& turn, const Member& member, uint32_t shard,
                          const wire::ShardCounts& counts) {
  if (table_.entry(shard).state == ShardState::kEnded) return;
  if (table_.purpose() == wire::Purpose::kTrain && train_shards_.open_piece() > 0) {
    if (!length_unknown_) bytes_total_ += counts.read - shard_bytes_[shard];
    shard_bytes_[shard] = counts.read;  // the size of a piece is known when it has ended
  }
  advance(turn, member, shard, bytes_of(shard));
  const Holder* own = table_.holder(shard, member.incarnation());
  const uint32_t attempt = own != nullptr ? own->attempt : table_.entry(shard).attempt;
  const std::vector<Holder> holders = table_.entry(shard).holders;
  for (const Holder& holder : holders) {
    if (holder.worker != member.incarnation()) revoke(turn, shard, holder.worker);
  }
  table_.end(shard, counts);
  if (table_.purpose() == wire::Purpose::kTrain) {
    shard_batches_longest_ = std::max(shard_batches_longest_, counts.batches);
  } else {
    ++pass_shards_ended_;
  }
  for (const Holder& holder : holders) note_idle(turn, holder.worker);
  bytes_ended_ += bytes_of(shard);
  turn.log(turn.event("ended")
               .add("epoch", table_.epoch())
               .add("shard", shard)
               .add("attempt", attempt)
               .add("worker", member.hello.index)
               .add("batches", counts.batches)
               .add("read", counts.read)
               .add("skipped", counts.skipped)
               .add("first_offset", counts.first_offset)
               .add("end_offset", counts.end_offset));
  const uint64_t limit = config_.job.data.bad_records_max;
  if (limit > 0 && counts.skipped > 0 && skipped_so_far() > limit) {
    return fail(turn, Error{ErrorCode::kBadData,
                            str("more than ", limit, " bad records (data.bad_records_max)"),
                            range_text(shard), "mend the data, or raise data.bad_records_max"});
  }
  if (auto same = check_stream(shard); !same) return fail(turn, std::move(same).error());
  note_end(turn, shard, counts);
  extend_open_pass(turn);
  check_pass_end(turn);
}

/// Checks that the hash of the stream before this shard equals the hash after the shard before it,
/// and likewise for the next shard. Different workers may have read them.
Result<void> ChiefCore::check_stream(uint32_t shard) const {
  if (!config_.joining.in_order || table_.purpose() != wire::Purpose::kTrain) return {};
  for (uint32_t at = std::max(shard, 1U); at <= shard + 1 && at < table_.shard_count(); ++at) {
    const ShardEntry &before = table_.entry(at - 1), &after = table_.entry(at);
    if (!before.has_counts || !after.has_counts ||
        before.counts.end_offset == after.counts.first_offset) {
      continue;
    }
    defended(Defence::kChiefNotReplayable);
    return Error{
        ErrorCode::kBadData,
        str("the input is not replayable: read again, the source gave other records before shard ",
            at, " than the first time"),
        range_text(at),
        "with replay = \"epoch\" a program must give the same records for the same DOWNPOUR_SEED "
        "and DOWNPOUR_EPOCH; a file must not change"};
  }
  return {};
}

uint64_t ChiefCore::skipped_so_far() const {
  uint64_t skipped = 0;
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard)
    skipped += table_.entry(shard).counts.skipped;
  return skipped;
}

void ChiefCore::on_shard_failed(Turn& turn, Member& member, const wire::ShardFailed& failed) {
  Error error{failed.code, failed.what, failed.where, failed.hint, failed.id};
  const bool of_worker = failed.lease.attempt == 0;  // the worker itself cannot continue
  if (!of_worker && !(working() && table_.is_newest(member.incarnation(), failed.lease))) return;
  const bool survivable = !of_worker && may_quarantine(failed.kind);
  if (failed.kind == wire::FailureKind::kNotFinite && !survivable) {
    error = std::move(error).with_context(
        "batch ", BatchId{failed.lease.shard.epoch, failed.lease.shard.shard, failed.batch});
  }
  if (is_deterministic(failed.code) && !survivable) {
    turn.log(turn.event("shard_failed")
                 .add("worker", member.hello.index)
                 .add("epoch", failed.lease.shard.epoch)
                 .add("shard", failed.lease.shard.shard)
                 .add("batch", failed.batch)
                 .add("what", failed.what));
    return fail(turn, std::move(error));
  }
  if (of_worker)
    return turn.notice_of(member.peer, NoticeLevel::kWarning,
                          str(member.full_name(), " failed: ", failed.what));
  const uint32_t shard = failed.lease.shard.shard;
  // The lease may be from an earlier chief, before a batch of the shard was quarantined.
  const bool outdated =
      table_.purpose() == wire::Purpose::kTrain &&
      failed.lease.quarantined_batches != quarantine_.quarantined_batches(failed.lease.shard);
  if (outdated || failed.code == ErrorCode::kInterrupted) {
    table_.release(shard, member.incarnation());
    note_idle(turn, member.incarnation());
    if (outdated || failed.kind != wire::FailureKind::kMarkersDiffer) return;
    defended(Defence::kChiefMarkersAsked);
    quarantine_.ask_again();  // a partition knows a marker that this chief does not know
    return reconcile_markers(turn);
  }
  count_failure(turn, member, error, shard, failed.batch, failed.kind);
}

/// Counts a failed attempt. The shard is leased again, or its batch is quarantined. The job fails
/// after too many attempts in a row without progress.
void ChiefCore::count_failure(Turn& turn, const Member& member, const Error& error, uint32_t shard,
                              uint32_t batch, wire::FailureKind kind) {
  const uint32_t failures = table_.fail(shard, member.incarnation(), batch);
  note_idle(turn, member.incarnation());
  prediction_.drop(shard);
  turn.log(turn.event("shard_failed")
               .add("worker", member.hello.index)
               .add("epoch", table_.epoch())
               .add("shard", shard)
               .add("batch", batch)
               .add("failures", failures)
               .add("what", error.what));
  // Another attempt would only repeat an unreadable record or a loss that is not finite.
  const bool once = kind == wire::FailureKind::kRecord || kind == wire::FailureKind::kNotFinite;
  if (may_quarantine(kind) && (once || failures >= config_.attempts_max)) {
    return quarantine_batch(turn, shard, batch, error);
  }
  if (failures < config_.attempts_max) {
    if (error.code == ErrorCode::kPeersLost) return;  // the loss of the worker was reported already
    return turn.notice(NoticeLevel::kWarning,
                       str("shard ", table_.epoch(), "/", shard, " failed at batch ", batch, " on ",
                           member.name(), ": ", error.what, "; it is tried again"));
  }
  fail(turn,
       Error{error.code,
             str("batch ", table_.epoch(), "/", shard, "/", batch, " failed ", failures,
                 " times in a row: ", error.what),
             error.where.empty() ? range_text(shard) : error.where,
             error.hint.empty() && table_.purpose() == wire::Purpose::kTrain
                 ? "look at its records and at the workers' logs; train.quarantine = true leaves "
                   "such a batch out"
                 : error.hint,
             error.id.empty() ? "DP-3402" : error.id});
}

/// Ends all leases of a member that is silent, replaced or gone. A death counts a failed attempt at
/// the shard that the worker was processing: the first one that it got and has not ended. It does
/// not count for the shards in its queue.
void ChiefCore::take_back_leases(Turn& turn, Member& member, bool died) {
  member.granted = RequestId{};
  paces_.forget(member.incarnation());
  table_.leave(member.incarnation());
  const std::vector<uint32_t> held = table_.held_by(member.incarnation());
  for (size_t i = 0; i < held.size(); ++i) {
    const uint32_t shard = held[i];
    turn.log(turn.event("expired")
                 .add("epoch", table_.epoch())
                 .add("shard", shard)
                 .add("attempt", table_.holder(shard, member.incarnation())->attempt)
                 .add("worker", member.hello.index));
    if (died && i == 0) {
      count_failure(turn, member,
                    Error{ErrorCode::kPeersLost, str(member.full_name(), " was lost")}, shard,
                    fatal_batch(shard));
    } else {
      table_.release(shard, member.incarnation());
      prediction_.drop(shard);
    }
    if (ending()) return;
  }
}

/// Returns the batch at which a worker that held the shard has died. Skips quarantined batches,
/// because workers do not compute them.
uint32_t ChiefCore::fatal_batch(uint32_t shard) const {
  uint32_t batch = table_.entry(shard).batches_acked;
  if (table_.purpose() != wire::Purpose::kTrain) return batch;
  for (const uint32_t quarantined : quarantine_.quarantined_batches({table_.epoch(), shard})) {
    if (quarantined == batch) ++batch;
  }
  return batch;
}

/// Revokes a lease and notifies its holder.
void ChiefCore::revoke(Turn& turn, uint32_t shard, Incarnation worker) {
  const Holder* holder = table_.holder(shard, worker);
  if (holder == nullptr) return;
  const wire::Lease lease = table_.lease_of(shard, *holder);
  const Member* member = members_.find_worker(worker);
  if (member != nullptr) turn.send(*member, wire::LeaseRevoked{lease});
  JsonLine line = turn.event("revoked")
                      .add("epoch", lease.shard.epoch)
                      .add("shard", shard)
                      .add("attempt", lease.attempt);
  if (member != nullptr) line.add("worker", member->hello.index);
  turn.log(line);
  table_.release(shard, worker);
  note_idle(turn, worker);
  prediction_.drop(shard);
}

/// Revokes all leases on the shard.
void ChiefCore::revoke_all(Turn& turn, uint32_t shard) {
  const std::vector<Holder> holders = table_.entry(shard).holders;
  for (const Holder& holder : holders) revoke(turn, shard, holder.worker);
}

}  // namespace downpour::chief
