#include "chief/core/work/leasing.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "shared/base/defence.h"
#include "shared/base/enum_text.h"

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
  return enum_text<wire::Purpose::kPredict>(purpose, {"train", "eval", "predict"});
}

}  // namespace

// ---- granting

bool Leasing::repeat_grant(Turn& turn, const Member& member, RequestId id) {
  const auto found = answered_.find(member.incarnation());
  if (id == RequestId{} || found == answered_.end() || found->second.id != id) return false;
  wire::LeaseGrant& grant = found->second.grant;
  std::erase_if(grant.leases, [&](const wire::Lease& lease) {
    return !table_.holds(member.incarnation(), lease);
  });
  if (grant.leases.empty()) return false;
  defended(Defence::kChiefGrantRepeated);
  turn.send(member, grant, id);
  return true;
}

void Leasing::answer(Turn& turn, const Member& member, RequestId id, wire::LeaseGrant&& grant) {
  if (grant.leases.empty()) grant.retry_ns = config_.lease_retry_ns;
  answered_[member.incarnation()] = {id, grant};
  turn.send(member, std::move(grant), id);
}

Result<void> Leasing::grant(Turn& turn, const Member& member, uint32_t wanted, const StepBase& base,
                            bool predicting, wire::LeaseGrant& grant) {
  const Incarnation who = member.incarnation();
  if (pass_.trains() && config_.job.train.replicas)
    return grant_replicas(turn, member, wanted, grant);
  DP_TRY_VOID(pass_.extend());
  // Near the end of a pass a worker gets at most its fair share of the free shards.
  const uint32_t workers = sharing_workers(turn);
  const uint32_t fair = (table_.free_count() + workers - 1) / workers;
  const uint32_t held = table_.held_count(who);
  const uint32_t room =
      config_.leases_per_worker_max - std::min(held, config_.leases_per_worker_max);
  const uint32_t limit = predicting ? table_.first_open() + config_.predict_window : UINT32_MAX;
  const PassView pass = pass_.view(turn);
  const auto suspected = [this](uint32_t shard) { return is_suspect(shard); };
  const bool fresh = pass_.may_begin_shards(base);
  // A worker holds a shard that has failed only as its single shard. So the chief knows where the
  // worker dies.
  const std::vector<uint32_t> in_hand = table_.held_by(who);
  if (policy_.single_step() && std::any_of(in_hand.begin(), in_hand.end(), suspected)) return {};
  for (uint32_t n = std::min({wanted, fair, room}); n > 0; --n) {
    if (!may_hold_more(pass, who, pass_.bytes_left())) break;
    const bool suspects = !policy_.single_step() || table_.held_count(who) == 0;
    const auto lease = table_.grant(turn.now_ns(), who, limit, member.hello.index, suspects,
                                    pass_.may_begin_shards(base));
    if (!lease) break;
    hand_over(turn, member, *lease, false, grant);
    if (grant.leases.back().single_step) break;
  }
  // Predictions have no backup leases, because a shard counts only when one attempt is complete.
  // Streams have none, because one worker at a time reads them.
  const bool none_free = table_.free_count() == 0 || (!fresh && !table_.begun_is_free());
  if (wanted > 0 && room > 0 && none_free && !predicting && table_.shared()) {
    const auto shard = choose_backup(pass, who);
    if (shard && !(policy_.single_step() && is_suspect(*shard))) {
      defended(Defence::kChiefBackupLease);
      hand_over(turn, member, table_.back_up(turn.now_ns(), *shard, who), true, grant);
    }
  }
  if (table_.held_count(who) > 0) pass_.paces().busy(turn.now_ns(), who);
  return pass_.extend();
}

/// Grants shards of replicas, which are divided evenly among the workers.
Result<void> Leasing::grant_replicas(Turn& turn, const Member& member, uint32_t wanted,
                                     wire::LeaseGrant& grant) {
  check_probation(turn);
  if (probation_) {
    wanted = std::min(wanted, 1U);
    const std::vector<uint32_t> held = table_.held_by(member.incarnation());
    if (!std::ranges::all_of(held, [this](uint32_t shard) { return has_staged(shard); })) return {};
  }
  const uint32_t workers = sharing_workers(turn);
  const auto replicas = uint32_t(*config_.job.train.replicas);
  // `remainder` workers hold one replica more than the others. If every worker might, some would
  // hold none, and each step would wait for workers that compute one replica after the other.
  const uint32_t even = replicas / workers, remainder = replicas % workers;
  const bool one_more = table_.others_above(even, member.incarnation()) < remainder;
  const uint32_t fair = even + (one_more ? 1 : 0);
  for (; wanted > 0; --wanted) {
    const auto lease =
        table_.grant_of_replica(turn.now_ns(), member.incarnation(), fair, /*ahead=*/!probation_);
    if (!lease) break;
    hand_over(turn, member, *lease, false, grant);
  }
  if (table_.held_count(member.incarnation()) > 0)
    pass_.paces().busy(turn.now_ns(), member.incarnation());
  return {};
}

/// Begins or ends the probation of replicas. When it begins, all leases end, because a worker must
/// not compute or read another batch together with one that may end it.
void Leasing::check_probation(Turn& turn) {
  const bool suspects =
      policy_.single_step() && config_.job.train.replicas && table_.has_suspects();
  if (suspects && !std::exchange(probation_, true)) {
    turn.log(turn.event("probation").add("epoch", table_.epoch()));
    revoke_all(turn);
  }
  probation_ = suspects;
}

/// Returns whether all ps have the batch of this shard that the next step needs. So computing it
/// does not end the worker.
bool Leasing::has_staged(uint32_t shard) const {
  const uint32_t replica = table_.replica_of(shard);
  return table_.first_open_of(replica) == shard && steps_.has_staged(table_, replica);
}

uint32_t Leasing::unpaused_workers(const Turn& turn) const {
  return members_.count([&](const Member& m) {
    return m.is_worker() && m.live() && clocks_.may_lease(turn.now_ns(), m.incarnation());
  });
}

/// Returns the number of workers that share the shards, at least 1.
uint32_t Leasing::sharing_workers(const Turn& turn) const {
  const uint32_t unpaused = pass_.trains() ? unpaused_workers(turn) : 0;
  return std::max(1U, unpaused > 0 ? unpaused : members_.workers_live());
}

bool Leasing::is_paused(const Turn& turn, const Member& member) const {
  return pass_.trains() && !clocks_.may_lease(turn.now_ns(), member.incarnation()) &&
         unpaused_workers(turn) > 0;
}

void Leasing::hand_over(Turn& turn, const Member& member, wire::Lease lease, bool backup,
                        wire::LeaseGrant& grant) {
  if (lease.purpose == wire::Purpose::kTrain) {
    lease.quarantined_batches = quarantine_.quarantined_batches(lease.shard);
    lease.single_step = policy_.single_step() && (probation_ || is_suspect(lease.shard.shard));
  }
  log_lease(turn, member, lease, backup);
  grant.leases.push_back(std::move(lease));
}

void Leasing::log_lease(Turn& turn, const Member& member, const wire::Lease& lease, bool backup) {
  const std::vector<plan::ShardRange> ranges = pass_.ranges_of(lease.shard.shard);
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

// ---- reports

WorkEvent Leasing::on_progress(Turn& turn, Member& member, const wire::ShardProgress& progress,
                               bool working, bool stopping) {
  const uint32_t shard = progress.lease.shard.shard;
  pass_.add_shards_of_earlier_chief(progress.lease);
  if (!working || !table_.covers(progress.lease)) {
    if (!progress.ended) {
      defended(Defence::kChiefLeaseNotHeld);
      turn.send(member, wire::LeaseRevoked{progress.lease});
    }
    return {};
  }
  // Registers a lease of an earlier chief. The worker keeps the shard.
  if (pass_.earlier_leases() && !stopping &&
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
    turn.send(member, wire::LeaseRevoked{progress.lease});
    return {};
  }
  pass_.advance(turn, member.incarnation(), shard, progress.bytes_done);
  table_.renew(turn.now_ns(), shard, member.incarnation(), progress.batches_acked,
               progress.bytes_done);
  if (progress.counts != wire::ShardCounts{}) table_.note_batches(shard, progress.counts.batches);
  return {};
}

WorkEvent Leasing::on_evaluated(Turn& turn, Member& member, wire::EvalReport&& report) {
  if (!table_.covers(report.lease)) return {};
  const uint32_t shard = report.lease.shard.shard;
  if (table_.entry(shard).state == ShardState::kEnded) return {};  // the first report counts
  if (const std::string wrong = wrong_report(config_.job, report); !wrong.empty()) {
    if (!table_.holds(member.incarnation(), report.lease)) return {};
    return count_failure(turn, member, Error{ErrorCode::kMalformed, wrong}, shard, 0);
  }
  if (!evaluation_.has_groups(config_.job, report)) {  // a report was lost
    if (table_.is_newest(member.incarnation(), report.lease))
      revoke(turn, shard, member.incarnation());
    return {};
  }
  const wire::ShardCounts counts = report.counts;
  evaluation_.take(shard, std::move(report));
  return end_shard(turn, member, shard, counts);
}

WorkEvent Leasing::on_grouped(Turn& turn, Member& member, const wire::PredictReport& report,
                              Bytes&& values) {
  if (!table_.covers(report.lease)) return {};
  const uint32_t shard = report.lease.shard.shard;
  const bool holds = table_.holds(member.incarnation(), report.lease);
  if (holds) table_.renew(turn.now_ns(), shard, member.incarnation(), report.batch + 1, 0);
  if (evaluation_.take_groups(config_.job, report, std::move(values)) || !holds) return {};
  Error error{ErrorCode::kMalformed,
              str("its ", report.records, " records with groups do not fit the job")};
  return count_failure(turn, member, std::move(error), shard, report.batch);
}

WorkEvent Leasing::on_predicted(Turn& turn, Member& member, wire::PredictReport&& report,
                                Bytes&& values) {
  if (!table_.covers(report.lease)) return {};
  if (!table_.holds(member.incarnation(), report.lease)) {
    turn.send(member, wire::LeaseRevoked{report.lease});
    return {};
  }
  const uint32_t shard = report.lease.shard.shard;
  table_.renew(turn.now_ns(), shard, member.incarnation(), report.batch + 1, 0);
  switch (prediction_.take(report, std::move(values))) {
    case PredictionRun::Verdict::kKept:
    case PredictionRun::Verdict::kRepeated:
      return {};
    case PredictionRun::Verdict::kBroken:
      // A report was lost, so the shard starts again.
      revoke(turn, shard, member.incarnation());
      return {};
    case PredictionRun::Verdict::kWhole:
      break;
  }
  for (PredictionBatch& batch : prediction_.next_in_order()) turn.emit(std::move(batch));
  return end_shard(turn, member, shard, report.counts);
}

/// Ends a shard. Leases of other workers on it are revoked.
WorkEvent Leasing::end_shard(Turn& turn, const Member& member, uint32_t shard,
                             const wire::ShardCounts& counts) {
  if (table_.entry(shard).state == ShardState::kEnded) return {};
  pass_.measure_piece(shard, counts);
  pass_.advance(turn, member.incarnation(), shard, pass_.bytes_of(shard));
  const Holder* own = table_.holder(shard, member.incarnation());
  const uint32_t attempt = own != nullptr ? own->attempt : table_.entry(shard).attempt;
  const std::vector<Holder> holders = table_.entry(shard).holders;
  for (const Holder& holder : holders) {
    if (holder.worker != member.incarnation()) revoke(turn, shard, holder.worker);
  }
  pass_.end_shard(shard, counts);
  if (pass_.trains()) policy_.drop_beyond(turn, {table_.epoch(), shard}, counts.batches);
  for (const Holder& holder : holders) pass_.note_idle(turn, holder.worker);
  pass_.add_ended(shard);
  turn.log(shard_event(turn, "ended", shard)
               .add("attempt", attempt)
               .add("worker", member.hello.index)
               .add("batches", counts.batches)
               .add("read", counts.read)
               .add("skipped", counts.skipped)
               .add("first_offset", counts.first_offset)
               .add("end_offset", counts.end_offset));
  const uint64_t limit = config_.job.data.bad_records_max;
  if (limit > 0 && counts.skipped > 0 && pass_.skipped_so_far() > limit) {
    return Error{ErrorCode::kBadData,
                 str("more than ", limit, " bad records (data.bad_records_max)"),
                 pass_.range_text(shard), "correct the data, or raise data.bad_records_max"};
  }
  if (auto same = pass_.check_stream(shard); !same) return std::move(same).error();
  pass_.note_end(turn, shard, counts);
  if (auto extended = pass_.extend(); !extended) return std::move(extended).error();
  return PassAdvanced{};
}

WorkEvent Leasing::on_failed(Turn& turn, Member& member, const wire::ShardFailed& failed,
                             bool working) {
  Error error{failed.code, failed.what, failed.where, failed.hint, failed.id};
  const bool of_worker = failed.lease.attempt == 0;  // the worker itself cannot continue
  if (!of_worker && !(working && table_.is_newest(member.incarnation(), failed.lease))) return {};
  const bool survivable = !of_worker && policy_.may_quarantine(failed.kind);
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
    return error;
  }
  if (of_worker) {
    turn.notice_of(member.peer, NoticeLevel::kWarning,
                   str(member.full_name(), " failed: ", failed.what));
    return {};
  }
  const uint32_t shard = failed.lease.shard.shard;
  // The lease may be from an earlier chief, before a batch of the shard was quarantined.
  const bool outdated = pass_.trains() && failed.lease.quarantined_batches !=
                                              quarantine_.quarantined_batches(failed.lease.shard);
  if (outdated || failed.code == ErrorCode::kInterrupted) {
    table_.release(shard, member.incarnation());
    pass_.note_idle(turn, member.incarnation());
    if (outdated || failed.kind != wire::FailureKind::kMarkersDiffer) return {};
    defended(Defence::kChiefMarkersAsked);
    quarantine_.ask_again();  // a partition knows a marker that this chief does not know
    return MarkersPending{};
  }
  return count_failure(turn, member, error, shard, failed.batch, failed.kind);
}

/// Counts a failed attempt. The shard is leased again, or its batch is quarantined. The job fails
/// after too many attempts in a row without progress.
WorkEvent Leasing::count_failure(Turn& turn, const Member& member, const Error& error,
                                 uint32_t shard, uint32_t batch, wire::FailureKind kind) {
  const uint32_t failures = table_.fail(shard, member.incarnation(), batch);
  pass_.note_idle(turn, member.incarnation());
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
  // All batches are applied, so none of them is at fault.
  const std::optional<uint32_t> batches = table_.entry(shard).batches;
  const bool at_end = batches && batch >= *batches;
  if (!at_end && policy_.may_quarantine(kind) && (once || failures >= config_.attempts_max)) {
    if (auto ok = policy_.propose(turn, shard, batch, error); !ok) return std::move(ok).error();
    revoke_all(turn, shard);
    return MarkersPending{};
  }
  if (failures < config_.attempts_max) {
    if (error.code == ErrorCode::kPeersLost)
      return {};  // the loss of the worker was reported already
    turn.notice(NoticeLevel::kWarning,
                str("shard ", table_.epoch(), "/", shard, " failed at batch ", batch, " on ",
                    member.name(), ": ", error.what, "; the chief leases the shard again"));
    return {};
  }
  const std::string what = at_end ? str("the end of shard ", table_.epoch(), "/", shard)
                                  : str("batch ", table_.epoch(), "/", shard, "/", batch);
  const std::string_view hint =
      !pass_.trains() ? ""
      : at_end        ? "check the workers' logs"
                      : "check its records and the workers' logs; train.quarantine = true leaves "
                        "such batches out";
  return Error{error.code, str(what, " failed ", failures, " times in a row: ", error.what),
               error.where.empty() ? pass_.range_text(shard) : error.where,
               error.hint.empty() ? std::string(hint) : error.hint,
               error.id.empty() ? "DP-3402" : error.id};
}

// ---- the end of leases

WorkEvent Leasing::leave(Turn& turn, Member& member, bool died) {
  answered_.erase(member.incarnation());
  pass_.paces().forget(member.incarnation());
  table_.leave(member.incarnation());
  const std::vector<uint32_t> held = table_.held_by(member.incarnation());
  if (!died || held.empty()) return {};
  if (policy_.single_step() && config_.job.train.replicas) return count_death(turn, member, held);
  log_expired(turn, member, held.front());
  return count_failure(turn, member,
                       Error{ErrorCode::kPeersLost, str(member.full_name(), " was lost")},
                       held.front(), fatal_batch(held.front()));
}

/// Counts a failed attempt of each shard at which a worker that computes replicas may have died: on
/// probation, of the one whose batch is not staged. After a change of ownership the cores report
/// anew what is staged, so that several may seem to be at fault. Then none is blamed.
WorkEvent Leasing::count_death(Turn& turn, const Member& member,
                               const std::vector<uint32_t>& held) {
  std::vector<uint32_t> suspects = held;
  if (probation_) {
    std::erase_if(suspects, [this](uint32_t shard) { return has_staged(shard); });
    if (suspects.size() > 1) suspects.clear();
  }
  WorkEvent event;
  for (const uint32_t shard : suspects) {
    log_expired(turn, member, shard);
    WorkEvent of_shard = count_failure(
        turn, member, Error{ErrorCode::kPeersLost, str(member.full_name(), " was lost")}, shard,
        fatal_batch(shard));
    if (std::holds_alternative<Error>(of_shard)) return of_shard;
    if (!std::holds_alternative<std::monostate>(of_shard)) event = std::move(of_shard);
  }
  check_probation(turn);
  return event;
}

void Leasing::release_all(Turn& turn, const Member& member) {
  for (const uint32_t shard : table_.held_by(member.incarnation())) {
    log_expired(turn, member, shard);
    table_.release(shard, member.incarnation());
    prediction_.drop(shard);
  }
}

/// Begins an event of a shard. Names the purpose of the pass, unless it is training.
JsonLine Leasing::shard_event(Turn& turn, const char* name, uint32_t shard) const {
  JsonLine line = turn.event(name);
  if (table_.purpose() != wire::Purpose::kTrain)
    line.add("purpose", purpose_name(table_.purpose()));
  return line.add("epoch", table_.epoch()).add("shard", shard);
}

void Leasing::log_expired(Turn& turn, const Member& member, uint32_t shard) {
  turn.log(shard_event(turn, "expired", shard)
               .add("attempt", table_.holder(shard, member.incarnation())->attempt)
               .add("worker", member.hello.index));
}

/// Returns the batch at which a worker that held the shard has died. Skips quarantined batches,
/// because workers do not compute them.
uint32_t Leasing::fatal_batch(uint32_t shard) const {
  uint32_t batch = table_.entry(shard).batches_acked;
  if (!pass_.trains()) return batch;
  for (const uint32_t quarantined : quarantine_.quarantined_batches({table_.epoch(), shard})) {
    if (quarantined == batch) ++batch;
  }
  return batch;
}

/// Revokes a lease and notifies its holder.
void Leasing::revoke(Turn& turn, uint32_t shard, Incarnation worker) {
  const Holder* holder = table_.holder(shard, worker);
  if (holder == nullptr) return;
  const wire::Lease lease = table_.lease_of(shard, *holder);
  const Member* member = members_.find_worker(worker);
  if (member != nullptr) turn.send(*member, wire::LeaseRevoked{lease});
  JsonLine line = shard_event(turn, "revoked", shard).add("attempt", lease.attempt);
  if (member != nullptr) line.add("worker", member->hello.index);
  turn.log(line);
  table_.release(shard, worker);
  pass_.note_idle(turn, worker);
  prediction_.drop(shard);
}

void Leasing::revoke_all(Turn& turn, uint32_t shard) {
  const std::vector<Holder> holders = table_.entry(shard).holders;
  for (const Holder& holder : holders) revoke(turn, shard, holder.worker);
}

void Leasing::revoke_all(Turn& turn) {
  for (const uint32_t shard : table_.leased()) revoke_all(turn, shard);
}

void Leasing::revoke_not_begun(Turn& turn) {
  for (const uint32_t shard : table_.leased()) {
    if (!table_.entry(shard).begun) revoke_all(turn, shard);
  }
}

void Leasing::end_stalled(Turn& turn, const std::vector<uint32_t>& shards) {
  std::set<Incarnation> slow;
  for (const uint32_t shard : shards) {
    for (const Holder& holder : table_.entry(shard).holders) slow.insert(holder.worker);
  }
  for (const uint32_t shard : shards) {
    defended(Defence::kChiefReplicaStalls);
    revoke_all(turn, shard);
  }
  if (!has_others(turn, slow)) return;
  for (const Incarnation worker : slow) {
    clocks_.pause(turn.now_ns(), worker);
    revoke_all(turn, worker);
  }
}

bool Leasing::has_others(const Turn& turn, const std::set<Incarnation>& workers) const {
  return members_.count([&](const Member& m) {
    return m.is_worker() && m.live() && !workers.contains(m.incarnation()) &&
           clocks_.may_lease(turn.now_ns(), m.incarnation());
  }) > 0;
}

void Leasing::move_replicas(Turn& turn, const std::vector<LeftOut::Move>& moves) {
  for (const LeftOut::Move& move : moves) {
    const std::vector<uint32_t> shards = table_.leased_of(move.replica);
    if (shards.empty() || !has_others(turn, {move.worker})) continue;
    defended(Defence::kChiefReplicaMoves);
    table_.give_away(turn.now_ns(), move.replica);
    for (const uint32_t shard : shards) revoke_all(turn, shard);
    if (!move.pauses) continue;
    clocks_.pause(turn.now_ns(), move.worker);
    revoke_all(turn, move.worker);
  }
}

void Leasing::revoke_all(Turn& turn, Incarnation worker) {
  for (const uint32_t shard : table_.held_by(worker)) {
    defended(Defence::kChiefLeaseIdle);
    revoke(turn, shard, worker);
  }
}

void Leasing::revoke_idle(Turn& turn, bool stalled) {
  const auto idle = table_.idle(turn.now_ns() - config_.lease_idle_ns,
                                stalled ? turn.now_ns() - config_.lease_stall_ns : INT64_MIN,
                                config_.joining.in_order);
  for (const LeaseTable::Held& held : idle) {
    // A worker that sends nothing at all may have died. Then the time limit for its silence ends
    // the lease, and counts a failed attempt.
    const Member* worker = members_.find_worker(held.worker);
    if (worker != nullptr && worker->live() &&
        turn.now_ns() - worker->heard_ns > config_.heartbeat_ns) {
      continue;
    }
    defended(Defence::kChiefLeaseIdle);
    turn.log(shard_event(turn, "idle", held.shard)
                 .add("attempt", table_.holder(held.shard, held.worker)->attempt));
    if (worker != nullptr) {
      turn.notice_of(worker->peer, NoticeLevel::kWarning,
                     str(worker->full_name(), " makes no progress with shard ", held.shard,
                         ", which is leased again: see what it printed; it may not reach a ps"));
    }
    revoke(turn, held.shard, held.worker);
  }
}

Result<void> Leasing::take_lacking(Turn& turn, const RoundOutcome& outcome) {
  if (outcome.shards > table_.shard_count())
    pass_.add_shards(outcome.shards - table_.shard_count());
  std::vector<bool> lacking(table_.shard_count());
  // Shards of an open stream that were not asked about have not been begun.
  std::fill(lacking.begin() + outcome.shards, lacking.end(), true);
  for (const LackingShard& shard : outcome.lacking) {
    lacking[shard.shard] = true;
    table_.reopen(shard.shard, shard.first_batch);
    if (shard.begun) table_.mark_begun(shard.shard);
  }
  pass_.reset_ended();
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard) {
    if (lacking[shard]) continue;
    revoke_all(turn, shard);
    table_.end(shard);
    pass_.add_ended(shard);
  }
  pass_.take_steps(outcome);
  return pass_.extend();
}

}  // namespace downpour::chief
