// ChiefCore: placing partitions, loss of a ps, and the reconciliation that follows.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "chief/core/placement.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

namespace {

std::string partitions_text(size_t count) {
  return str(count, count == 1 ? " partition" : " partitions");
}

}  // namespace

// ---- placing

/// Assigns an owner to every partition when enough ps have joined: the ps with the best claim, or
/// else a ps that restores the partition from the newest checkpoint.
void ChiefCore::place(Turn& turn) {
  const std::vector<Member*> cores = ps_cores(members_);
  std::vector<Claim> claims = best_claims(cores);
  const auto count = [&] {
    return size_t(std::ranges::count_if(claims, [](const Claim& c) { return c.by != nullptr; }));
  };
  size_t claimed = count();
  const bool all_came = cores.size() >= config_.ps_cores_expected;
  if (claimed == 0 && !all_came) return;
  if (claimed > 0 && claimed < claims.size()) {  // ps with the remaining claims may still come
    if (claims_ns_ < 0) claims_ns_ = turn.now_ns();
    if (turn.now_ns() - claims_ns_ < (all_came ? config_.claims_wait_ns : config_.ps_wait_ns))
      return;
  }
  if (const Member* holder = drop_claims_of_other_plans(claims)) return refuse_data(turn, *holder);
  claimed = count();
  if (claimed == 0 && !all_came) return;
  const RestorePoint& point = checkpoints_.newest();
  if (auto valid = check_images(point.images, ownership_.partition_count()); !valid) {
    valid.error().where = point.folder;
    return fail(turn, std::move(valid).error());
  }
  enter(turn, Phase::kAdopting);
  claimed_ = claimed > 0;
  std::vector<PartitionId> unclaimed;
  for (uint32_t p = 0; p < claims.size(); ++p) {
    if (claims[p].by == nullptr) {
      unclaimed.push_back(PartitionId(p));
    } else {
      ownership_.claim(PartitionId(p), owner_from(*claims[p].by), claims[p].ownership_generation);
    }
  }
  if (config_.mode == wire::Purpose::kTrain && (claimed_ || !point.images.empty())) {
    quarantine_.forget_what_others_know();
  }
  turn.log(turn.event("place").add("claimed", claimed).add("restored", unclaimed.size()));
  if (ownership_.ready()) return publish_view(turn);
  if (claimed_) return spread(turn, unclaimed, cores, ownership_.next_ownership_generation());
  give_ranges(turn, cores);
}

/// Assigns all partitions evenly to all cores.
void ChiefCore::give_ranges(Turn& turn, const std::vector<Member*>& cores) {
  const ViewId ownership_generation = ownership_.next_ownership_generation();
  const auto ranges = even_ranges(ownership_.partition_count(), uint32_t(cores.size()));
  for (size_t core = 0; core < cores.size(); ++core) {
    if (!ranges[core].empty()) adopt(turn, *cores[core], ranges[core], ownership_generation);
  }
}

/// Returns the best claim to each partition. Of several claims the one with the highest ownership
/// generation wins. A claim is accepted only if it has everything that the newest checkpoint holds:
/// - Its generation is the one under which the checkpoint's image was written; or
/// - its generation is higher than all that had been assigned when the checkpoint was written (if
///   the manifest names them), and it has as many sealed epochs.
/// Every other claim belongs to an outdated process.
std::vector<ChiefCore::Claim> ChiefCore::best_claims(const std::vector<Member*>& cores) const {
  std::vector<Claim> best(ownership_.partition_count());
  for (const Member* core : cores) {
    for (const wire::PartitionClaim& claim : core->hello.claims) {
      const uint32_t p = raw(claim.partition);
      if (p >= best.size()) continue;
      if (claim.sealed_epochs > history_.sealed()) {
        defended(Defence::kChiefClaimSealedAhead);
        continue;
      }
      const bool known = config_.resume && p < config_.resume->ownership_generations.size();
      const bool wrote =
          known && claim.ownership_generation == config_.resume->ownership_generations[p];
      const bool later = claim.sealed_epochs == history_.sealed() &&
                         (!known || claim.ownership_generation > config_.resume->given);
      if (!wrote && !later) {
        defended(Defence::kChiefClaimStale);
        continue;
      }
      if (claim.ownership_generation == ViewId{} || claim.ownership_generation.term >= config_.term)
        continue;
      if (best[p].by != nullptr && best[p].by != core) defended(Defence::kChiefClaimOutdone);
      if (best[p].by == nullptr || claim.ownership_generation > best[p].ownership_generation)
        best[p] = {core, claim.ownership_generation};
    }
  }
  return best;
}

/// Drops the claims of other plans. Their partitions are restored under a new generation, because
/// workers of the other plan may still push to them. Returns a core that holds batches of unsealed
/// epochs of another plan; null if there is none.
const Member* ChiefCore::drop_claims_of_other_plans(std::vector<Claim>& claims) const {
  for (Claim& claim : claims) {
    if (claim.by == nullptr || claim.by->hello.plan_hash == 0 ||
        claim.by->hello.plan_hash == config_.plan_hash) {
      continue;
    }
    if (claim.by->hello.holds_unsealed) return claim.by;
    defended(Defence::kChiefClaimOtherData);
    claim = {};
  }
  return nullptr;
}

/// Ends this chief, because the data have changed within an epoch. It does not stop ps and workers,
/// because a chief with the right data can continue with what they hold.
void ChiefCore::refuse_data(Turn& turn, const Member& holder) {
  defended(Defence::kChiefOtherData);
  error_ =
      Error{ErrorCode::kConfig,
            str("the training data have changed since epoch ", history_.sealed(),
                " of this run began: ", holder.full_name(),
                " holds batches that were made of other data"),
            config_.job.run_dir,
            "restore the data files and run the job again; or end the ps, which drops what was "
            "trained since the newest checkpoint, and run it again",
            "DP-2112"};
  code_ = exit_code(error_->code);
  turn.log(turn.event("failed")
               .add("code", code_)
               .add("what", error_->what)
               .add("where", error_->where));
  finish(turn);
}

/// Assigns partitions to the core, in the state of the newest checkpoint, or empty if there is
/// none.
void ChiefCore::adopt(Turn& turn, Member& member, std::vector<PartitionId> partitions,
                      ViewId ownership_generation) {
  wire::Adopt adopt = adopt_request();
  adopt.ownership_generation = ownership_generation;
  adopt.partitions = std::move(partitions);
  const RestorePoint& point = checkpoints_.newest();
  if (!point.images.empty()) adopt.folder = point.folder;
  for (const PartitionId p : adopt.partitions) {
    if (point.images.empty()) continue;
    const auto& chain = point.images[raw(p)];
    adopt.images.insert(adopt.images.end(), chain.begin(), chain.end());
  }
  turn.log(turn.event("adopt")
               .add("who", member.name())
               .add("since_n", ownership_generation.n)
               .add("partitions", adopt.partitions.size())
               .add("from_term", point.checkpoint.term)
               .add("from_n", point.checkpoint.n));
  rolled_back_ = true;
  ownership_.give(turn.now_ns(), adopt.partitions, owner_from(member), ownership_generation);
  turn.ask(member, std::move(adopt));
}

/// Assigns partitions one at a time to the core that has the fewest.
void ChiefCore::spread(Turn& turn, const std::vector<PartitionId>& partitions,
                       const std::vector<Member*>& cores, ViewId ownership_generation) {
  std::vector<uint32_t> loads;
  for (const Member* core : cores) loads.push_back(ownership_.load(ps_key(*core)));
  std::vector<std::vector<PartitionId>> given(cores.size());
  for (const PartitionId p : partitions) {
    const auto least = size_t(std::min_element(loads.begin(), loads.end()) - loads.begin());
    given[least].push_back(p);
    ++loads[least];
  }
  for (size_t core = 0; core < cores.size(); ++core) {
    if (!given[core].empty())
      adopt(turn, *cores[core], std::move(given[core]), ownership_generation);
  }
}

void ChiefCore::on_adopted(Turn& turn, Member& member, const wire::Adopted& adopted) {
  const bool probed = adopted.ownership_generation == ViewId{config_.term, 0};
  if (probed && adopted.ok) member.answers = true;
  if (probed) return;
  if (!ownership_.adopting(ps_key(member), adopted.ownership_generation)) {
    return defended(Defence::kChiefAdoptedLate);
  }
  if (!adopted.ok && moves_.is_current(adopted.ownership_generation)) {
    moves_.blame_target(turn);
    return cancel_move(turn, str(member.full_name(), ": ", adopted.error));
  }
  if (!adopted.ok) return on_damage(turn, member, adopted);
  member.answers = member.received = true;
  ownership_.adopted(ps_key(member));
  turn.outbox().answered(member);
  if (ownership_.ready()) publish_view(turn);
}

void ChiefCore::publish_view(Turn& turn) {
  const wire::View& view = ownership_.publish();
  turn.log(turn.event("view")
               .add("term", view.id.term)
               .add("n", view.id.n)
               .add("ps_cores", view.owners.size())
               .add("partitions", view.partitions.size()));
  for (const Member& member : members_) {
    if (!member.left) turn.send(member, view);
  }
  moves_.on_view_published(turn);
  if (DP_MUTATE("round-survives-a-change-of-ownership") && phase_ == Phase::kCompleting) return;
  const bool rolled_back = std::exchange(rolled_back_, false);
  if (!begun_) {
    begun_ = true;
    return begin_work(turn);
  }
  interrupt(turn, "another view is published");
  if (rolled_back && !DP_MUTATE("no-survey-after-a-rollback")) {
    reconcile(turn);
  } else {
    continue_phase(turn);
  }
}

/// Returns an Adopt without partitions: what every core must know that adopts some.
wire::Adopt ChiefCore::adopt_request() const {
  return {.sealed_epochs = history_.sealed(),
          .markers = quarantine_.markers(),
          .markers_known = quarantine_.known(),
          .plan_hash = ownership_.view().plan_hash};
}

// ---- moves

/// Begins the next move if one is wanted, and cancels one that takes too long.
void ChiefCore::check_moves(Turn& turn) {
  moves_.check_leaving();
  if (moves_.overdue(turn)) {
    moves_.blame_target(turn);
    cancel_move(turn, "it took too long");
  }
  moves_.dismiss_drained_ps(turn);
  if (may_move(turn)) moves_.begin_next(turn);
}

/// Returns true if a move may begin: shards are leased, no other move is in progress, and no
/// checkpoint would lose its images by it.
bool ChiefCore::may_move(const Turn& turn) const {
  return moves_.may_begin(turn) && leasing() && stop_signal_ == 0 && ownership_.whole() &&
         !checkpoints_.under_way() && !save_due(turn);
}

void ChiefCore::cancel_move(Turn& turn, const std::string& why) {
  moves_.cancel(turn, why);
  if (ownership_.ready()) publish_view(turn);
}

// ---- losing a ps

/// Marks a ps core as lost. Its partitions wait for a ps of the same index, and no other partition
/// is rolled back.
void ChiefCore::on_ps_lost(Turn& turn, Member& member, const std::string& why) {
  turn.outbox().answered(member);
  const uint32_t partitions = ownership_.lose(ps_key(member), turn.now_ns());
  const bool ends_move = moves_.forget_ps(ps_key(member));
  if (partitions > 0) {
    if (last_lost_ != member.incarnation()) ++ps_lost_;  // the cores of a process are lost together
    last_lost_ = member.incarnation();
    turn.log(turn.event("ps_lost")
                 .add("who", member.name())
                 .add("incarnation", raw(member.incarnation()))
                 .add("partitions", partitions)
                 .add("why", why));
    turn.emit(Notice{NoticeLevel::kWarning,
                     str(member.full_name(), " was lost: ", why, "; its ",
                         partitions_text(partitions), " wait for ps ", member.hello.index, " for ",
                         config_.ps_wait_ns / kSecond, " s, then others take them")});
    // This comes before a view that may follow, so that it does not interrupt what that view
    // begins.
    interrupt(turn, str(member.name(), " was lost"));
  }
  if (ends_move) return cancel_move(turn, str(member.name(), " was lost"));
  if (partitions == 0) return;
  // The next view may have waited only for this core. Or the partitions assigned to it are still
  // with their live owner; then no view is needed.
  if (ownership_.ready()) return publish_view(turn);
  if (ownership_.whole()) continue_phase(turn);
}

/// Handles the return of a ps core that was silent or replaced. It keeps the partitions that were
/// not assigned to another core meanwhile.
void ChiefCore::on_ps_returned(Turn& turn, Member& member) {
  const uint32_t found = ownership_.reinstate(ps_key(member));
  moves_.on_ps_returned(ps_key(member), found);
  if (found == 0) return;
  defended(Defence::kChiefPsReturns);
  if (ownership_.ready()) return publish_view(turn);
  if (ownership_.whole()) continue_phase(turn);
}

/// Assigns lost partitions to a ps of the same index, or after `ps_wait_ns` to all others.
void ChiefCore::restore(Turn& turn) {
  // If a manifest is being written, its result decides from which checkpoint they are restored.
  if (ending() || phase_ == Phase::kGathering || checkpoints_.publishing()) return;
  ViewId ownership_generation;
  const auto number = [&] {
    if (DP_MUTATE("restored-under-the-old-since")) return ownership_.view().id;
    return ownership_generation == ViewId{}
               ? ownership_generation = ownership_.next_ownership_generation()
               : ownership_generation;
  };
  for (const Ownership::Lost& lost : ownership_.lost()) {
    const bool had_owner = lost.was.incarnation != Incarnation{};
    if (Member* successor = had_owner ? successor_of(lost.was) : nullptr) {
      if (!ownership_.adopting(ps_key(*successor)))
        adopt(turn, *successor, lost.partitions, number());
      continue;
    }
    if (had_owner && turn.now_ns() - lost.lost_ns < config_.ps_wait_ns) continue;
    std::vector<Member*> cores = ps_cores(members_);
    std::erase_if(cores, [&](const Member* m) { return ownership_.adopting(ps_key(*m)); });
    const auto answers = [](const Member* m) { return m->answers; };
    if (std::any_of(cores.begin(), cores.end(), answers))
      std::erase_if(cores, [&](const Member* m) { return !answers(m); });
    if (cores.empty()) continue;
    turn.notice(NoticeLevel::kWarning,
                str("ps ", lost.was.index, " did not come back: its ",
                    partitions_text(lost.partitions.size()), " go to other ps"));
    spread(turn, lost.partitions, cores, number());
  }
}

/// Returns the live ps core with the index and number of a former owner: another process, or the
/// owner itself if its copy is stale.
Member* ChiefCore::successor_of(const wire::Owner& was) {
  return members_.find_if([&](const Member& m) {
    return m.is_ps() && m.live() && m.hello.index == was.index && m.hello.thread == was.thread;
  });
}

void ChiefCore::check_ps(Turn& turn) {
  restore(turn);
  if (ending() || phase_ == Phase::kGathering) return;
  moves_.probe_ps(turn);
  if (const auto slow = ownership_.overdue_adopter(turn.now_ns() - config_.adopt_timeout_ns)) {
    Member* member = members_.find(wire::Role::kPs, slow->incarnation, slow->thread);
    const bool others = members_.count([&](const Member& m) {
      return m.is_ps() && m.live() && m.answers && &m != member;
    }) > 0;
    if (member != nullptr && others) {
      defended(Defence::kChiefAdoptTimeout);
      on_ps_lost(turn, *member,
                 str("it did not take up its partitions within ",
                     config_.adopt_timeout_ns / kSecond, " s"));
      return replace(turn, *member);
    }
    return fail(turn,
                Error{ErrorCode::kPeersLost,
                      str("ps ", slow->index, " did not take up its partitions within ",
                          config_.adopt_timeout_ns / kSecond, " s"),
                      slow->endpoint, "run the job again: it goes on from the newest checkpoint"});
  }
  if (members_.ps_live() > 0) {
    no_ps_ns_ = -1;
    return;
  }
  if (no_ps_ns_ < 0) no_ps_ns_ = turn.now_ns();
  if (turn.now_ns() - no_ps_ns_ <= config_.ps_none_ns) return;
  fail(turn,
       Error{ErrorCode::kPeersLost,
             str("no ps is left, and none came back within ", config_.ps_none_ns / kSecond, " s"),
             {},
             "run the job again: it goes on from the newest checkpoint"});
}

// ---- reconciliation

/// Voids the running round and checkpoint, because ownership has changed or is about to change.
void ChiefCore::interrupt(Turn& turn, const std::string& why) {
  if ((phase_ == Phase::kReconciling || phase_ == Phase::kCompleting) &&
      !DP_MUTATE("round-survives-a-change-of-ownership")) {
    defended(Defence::kChiefRoundInterrupted);
    rounds_.interrupt(turn);
  }
  checkpoints_.abandon(turn, why);
}

/// Continues the phase that waited for owners, when every partition has one and none was rolled
/// back.
void ChiefCore::continue_phase(Turn& turn) {
  if (phase_ == Phase::kReconciling || phase_ == Phase::kCompleting) {
    begin_round(turn);
  } else if (phase_ == Phase::kSaving && !checkpoints_.under_way()) {
    want_save(turn);
  }
}

/// Asks all partitions what they hold, from the first unsealed epoch on, because some partition was
/// restored. Training returns to the first epoch of which a partition lacks something.
void ChiefCore::reconcile(Turn& turn) {
  if (config_.mode != wire::Purpose::kTrain) return continue_phase(turn);  // applies nothing
  if (phase_ != Phase::kReconciling) {
    reconciled_phase_ = phase_ == Phase::kCompleting ? Phase::kTraining : phase_;
  }
  if (history_.drop_partial()) {  // its account is void until the round after this one
    for (const uint32_t shard : table_.leased()) revoke_all(turn, shard);
    open_epoch(turn);
    reconciled_phase_ = stop_signal_ != 0 ? Phase::kSaving : Phase::kTraining;
  }
  reconcile_epoch_ = history_.sealed();
  markers_only_ = false;
  enter(turn, Phase::kReconciling);
  reconcile_next(turn);
}

void ChiefCore::reconcile_next(Turn& turn) {
  // All partitions are asked about the epoch in training, but not about an epoch that has not
  // begun.
  if (reconcile_epoch_ < history_.complete() || reconciled_phase_ == Phase::kTraining) {
    return begin_round(turn);
  }
  enter(turn, reconciled_phase_);
  continue_phase(turn);
  check_pass_end(turn);
}

void ChiefCore::end_reconcile(Turn& turn, const RoundOutcome& outcome) {
  if (std::exchange(markers_only_, false)) {
    enter(turn, stop_signal_ != 0 ? Phase::kSaving : Phase::kTraining);
    return stop_signal_ != 0 ? want_save(turn) : check_pass_end(turn);
  }
  if (outcome.lacking.empty()) {
    if (reconcile_epoch_ == history_.complete()) return complete_epoch(turn, outcome);
    ++reconcile_epoch_;
    return reconcile_next(turn);
  }
  if (reconcile_epoch_ < history_.complete()) roll_back_to(turn, reconcile_epoch_);
  take_lacking(turn, outcome);
  if (ending()) return;
  if (stop_signal_ != 0) {
    enter(turn, Phase::kSaving);
    return want_save(turn);
  }
  enter(turn, Phase::kTraining);
  check_pass_end(turn);
}

/// Returns to an epoch that was complete and is not any more. Its account, its evaluation, and
/// everything that followed are void.
void ChiefCore::roll_back_to(Turn& turn, uint32_t epoch) {
  defended(Defence::kChiefRollsBack);
  turn.notice(
      NoticeLevel::kWarning,
      str("epoch ", epoch, " is not whole any more at every partition: its training goes on"));
  for (const uint32_t shard : table_.leased()) revoke_all(turn, shard);
  history_.roll_back_to(epoch);
  open_epoch(turn);
}

/// Leases the shards that some partition lacks, according to a valid round. All others have ended.
void ChiefCore::take_lacking(Turn& turn, const RoundOutcome& outcome) {
  if (outcome.shards > table_.shard_count()) add_shards(outcome.shards - table_.shard_count());
  std::vector<bool> lacking(table_.shard_count());
  // Shards of an open stream that were not asked about have not been begun.
  std::fill(lacking.begin() + outcome.shards, lacking.end(), true);
  for (const LackingShard& shard : outcome.lacking) {
    lacking[shard.shard] = true;
    table_.reopen(shard.shard, shard.first_batch);
    if (shard.begun) table_.mark_begun(shard.shard);
  }
  bytes_ended_ = 0;
  for (uint32_t shard = 0; shard < table_.shard_count(); ++shard) {
    if (lacking[shard]) continue;
    revoke_all(turn, shard);
    table_.end(shard);
    bytes_ended_ += bytes_of(shard);
  }
  // Steps according to the partitions: the smallest sum over their ended shards, plus the common
  // batches of the lacking shards. This is an estimate, because a lacking shard may have ended at
  // some of them.
  epoch_steps_ = UINT64_MAX;
  for (const wire::PartitionStatus& status : outcome.partitions)
    epoch_steps_ = std::min<uint64_t>(epoch_steps_, status.counts.batches);
  if (outcome.partitions.empty()) epoch_steps_ = 0;
  for (const LackingShard& shard : outcome.lacking) epoch_steps_ += shard.first_batch;
  epoch_acked_ = table_.batches_acked();
  extend_open_pass(turn);
  defended(Defence::kChiefLacking);
  turn.log(turn.event("round_lacking")
               .add("round", rounds_.number())
               .add("shards", outcome.lacking.size())
               .add("first", outcome.lacking.front().shard));
}

}  // namespace downpour::chief
