#include "chief/core/cluster/recovery.h"

#include <algorithm>
#include <utility>

#include "chief/core/cluster/placement.h"
#include "shared/base/defence.h"

namespace downpour::chief {

namespace {

std::string partitions_text(size_t count) {
  return str(count, count == 1 ? " partition" : " partitions");
}

uint32_t claimed_count(const std::vector<Recovery::Claim>& claims) {
  return uint32_t(
      std::ranges::count_if(claims, [](const Recovery::Claim& c) { return c.by != nullptr; }));
}

}  // namespace

// ---- placing

bool Recovery::Plan::claimed() const { return claimed_count(claims) > 0; }

Recovery::Plan Recovery::plan(const Turn& turn, uint32_t sealed_epochs) {
  const std::vector<Member*> cores = ps_cores(members_);
  Plan plan{.claims = best_claims(cores, sealed_epochs)};
  const size_t claimed = claimed_count(plan.claims);
  const bool all_came = cores.size() >= config_.ps_cores_expected;
  if (claimed == 0 && !all_came) return plan;
  if (claimed > 0 && claimed < plan.claims.size()) {  // ps with the remaining claims may still come
    if (claims_ns_ < 0) claims_ns_ = turn.now_ns();
    if (turn.now_ns() - claims_ns_ < (all_came ? config_.claims_wait_ns : config_.ps_wait_ns))
      return plan;
  }
  if (const Member* holder = drop_claims_of_other_plans(plan.claims))
    plan.refused = other_data(*holder, sealed_epochs);
  plan.ready = plan.refused || plan.claimed() || all_came;
  // A step that the earlier chief was committing may be applied at some partitions only.
  if (config_.job.train.replicas && config_.mode == wire::Purpose::kTrain)
    plan.claims.assign(plan.claims.size(), {});
  return plan;
}

/// Returns the error of a chief that finds batches which were made of other data.
Error Recovery::other_data(const Member& holder, uint32_t sealed_epochs) const {
  defended(Defence::kChiefOtherData);
  return {ErrorCode::kConfig,
          str("the training data have changed after the start of epoch ", sealed_epochs + 1,
              " of this run: ", holder.full_name(), " has applied batches of the earlier data"),
          config_.job.run_dir,
          "restore the data files and run the job again; or stop the ps, which discards the "
          "training since the newest checkpoint, and run the job again",
          "DP-2112"};
}

void Recovery::place(Turn& turn, const Plan& plan, const RestorePoint& point,
                     const wire::Adopt& common) {
  std::vector<PartitionId> unclaimed;
  for (uint32_t p = 0; p < plan.claims.size(); ++p) {
    const Claim& claim = plan.claims[p];
    if (claim.by == nullptr) {
      unclaimed.push_back(PartitionId(p));
    } else {
      ownership_.claim(PartitionId(p), owner_from(*claim.by), claim.ownership_generation);
    }
  }
  turn.log(turn.event("place")
               .add("claimed", plan.claims.size() - unclaimed.size())
               .add("restored", unclaimed.size()));
  if (ownership_.ready()) return;
  const std::vector<Member*> cores = ps_cores(members_);
  if (!plan.claimed()) return give_ranges(turn, cores, point, common);
  spread(turn, unclaimed, cores, ownership_.next_ownership_generation(), point, common);
}

bool Recovery::place_anew(Turn& turn, const RestorePoint& point, const wire::Adopt& common) {
  ownership_.forget_claims();
  const std::vector<Member*> cores = ps_cores(members_);
  if (!cores.empty()) give_ranges(turn, cores, point, common);
  return !cores.empty();
}

/// Assigns all partitions evenly to all cores.
void Recovery::give_ranges(Turn& turn, const std::vector<Member*>& cores, const RestorePoint& point,
                           const wire::Adopt& common) {
  const ViewId ownership_generation = ownership_.next_ownership_generation();
  const auto ranges = even_ranges(ownership_.partition_count(), uint32_t(cores.size()),
                                  traits_of(config_.job.train.mode).has_groups);
  for (size_t core = 0; core < cores.size(); ++core) {
    if (!ranges[core].empty())
      adopt(turn, *cores[core], ranges[core], ownership_generation, point, common);
  }
}

/// Returns the best claim to each partition. Of several claims the one with the highest ownership
/// generation wins. A claim is accepted only if it has everything that the newest checkpoint holds:
/// - Its generation is the one under which the checkpoint's image was written; or
/// - its generation is higher than all that had been assigned when the checkpoint was written (if
///   the manifest names them), and it has as many sealed epochs.
/// Every other claim belongs to an outdated process.
std::vector<Recovery::Claim> Recovery::best_claims(const std::vector<Member*>& cores,
                                                   uint32_t sealed_epochs) const {
  std::vector<Claim> best(ownership_.partition_count());
  for (const Member* core : cores) {
    for (const wire::PartitionClaim& claim : core->hello.claims) {
      const uint32_t p = raw(claim.partition);
      if (p >= best.size()) continue;
      if (claim.sealed_epochs > sealed_epochs) {
        defended(Defence::kChiefClaimSealedAhead);
        continue;
      }
      const bool known = config_.resume && p < config_.resume->ownership_generations.size();
      const bool wrote =
          known && claim.ownership_generation == config_.resume->ownership_generations[p];
      const bool later = claim.sealed_epochs == sealed_epochs &&
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
const Member* Recovery::drop_claims_of_other_plans(std::vector<Claim>& claims) const {
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

/// Assigns partitions to the core, in the state of the newest checkpoint, or empty if there is
/// none.
void Recovery::adopt(Turn& turn, Member& member, std::vector<PartitionId> partitions,
                     ViewId ownership_generation, const RestorePoint& point, wire::Adopt adopt) {
  adopt.ownership_generation = ownership_generation;
  adopt.partitions = std::move(partitions);
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
void Recovery::spread(Turn& turn, const std::vector<PartitionId>& partitions,
                      const std::vector<Member*>& cores, ViewId ownership_generation,
                      const RestorePoint& point, const wire::Adopt& common) {
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
      adopt(turn, *cores[core], std::move(given[core]), ownership_generation, point, common);
  }
}

Recovery::AdoptEvent Recovery::on_adopted(Turn& turn, Member& member,
                                          const wire::Adopted& adopted) {
  const bool probed = adopted.ownership_generation == ViewId{config_.term, 0};
  if (probed && adopted.ok) member.answers = true;
  if (probed) return AdoptEvent::kNone;
  if (!ownership_.adopting(ps_key(member), adopted.ownership_generation)) {
    defended(Defence::kChiefAdoptedLate);
    return AdoptEvent::kNone;
  }
  if (!adopted.ok && moves_.is_current(adopted.ownership_generation)) {
    moves_.blame_target(turn);
    return AdoptEvent::kMoveFailed;
  }
  if (!adopted.ok) return AdoptEvent::kDamaged;
  member.answers = member.received = true;
  ownership_.adopted(ps_key(member));
  turn.outbox().answered(member);
  return AdoptEvent::kAdopted;
}

void Recovery::publish_view(Turn& turn) {
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
}

// ---- losing a ps

uint32_t Recovery::reinstate(const Member& member) {
  const uint32_t found = ownership_.reinstate(ps_key(member));
  moves_.on_ps_returned(ps_key(member), found);
  if (found > 0) defended(Defence::kChiefPsReturns);
  return found;
}

Recovery::Loss Recovery::lose(Turn& turn, const Member& member, const std::string& why) {
  turn.outbox().answered(member);
  Loss loss;
  loss.partitions = ownership_.lose(ps_key(member), turn.now_ns());
  loss.ends_move = moves_.forget_ps(ps_key(member));
  if (loss.partitions == 0) return loss;
  turn.log(turn.event("ps_lost")
               .add("who", member.name())
               .add("incarnation", raw(member.incarnation()))
               .add("partitions", loss.partitions)
               .add("why", why));
  turn.emit(Notice{NoticeLevel::kWarning,
                   str(member.full_name(), " was lost: ", why, "; its ",
                       partitions_text(loss.partitions), " wait for ps ", member.hello.index,
                       " for ", config_.ps_wait_ns / kSecond, " s, then other ps adopt them")});
  return loss;
}

void Recovery::restore(Turn& turn, const RestorePoint& point, const wire::Adopt& common) {
  ViewId ownership_generation;
  const auto number = [&] {
    return ownership_generation == ViewId{}
               ? ownership_generation = ownership_.next_ownership_generation()
               : ownership_generation;
  };
  for (const Ownership::Lost& lost : ownership_.lost()) {
    const bool had_owner = lost.was.incarnation != Incarnation{};
    if (Member* successor = had_owner ? successor_of(lost.was) : nullptr) {
      if (!ownership_.adopting(ps_key(*successor)))
        adopt(turn, *successor, lost.partitions, number(), point, common);
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
                str("ps ", lost.was.index, " did not return: its ",
                    partitions_text(lost.partitions.size()), " are restored at other ps"));
    spread(turn, lost.partitions, cores, number(), point, common);
  }
}

/// Returns the live ps core with the index and number of a former owner: another process, or the
/// owner itself if its copy is stale.
Member* Recovery::successor_of(const wire::Owner& was) {
  return members_.find_if([&](const Member& m) {
    return m.is_ps() && m.live() && m.hello.index == was.index && m.hello.thread == was.thread;
  });
}

std::optional<Recovery::Overdue> Recovery::overdue(const Turn& turn) {
  const auto slow = ownership_.overdue_adopter(turn.now_ns() - config_.adopt_timeout_ns);
  if (!slow) return std::nullopt;
  Member* member = members_.find(wire::Role::kPs, slow->incarnation, slow->thread);
  const bool others = members_.count([&](const Member& m) {
    return m.is_ps() && m.live() && m.answers && &m != member;
  }) > 0;
  const std::string why =
      str("did not adopt its partitions within ", config_.adopt_timeout_ns / kSecond, " s");
  return Overdue{.member = others ? member : nullptr,
                 .why = "it " + why,
                 .error = {ErrorCode::kPeersLost, str("ps ", slow->index, ' ', why), slow->endpoint,
                           "run the job again: it resumes from the newest checkpoint"}};
}

std::optional<Error> Recovery::check_none(const Turn& turn) {
  if (members_.ps_live() > 0) {
    no_ps_ns_ = -1;
    return std::nullopt;
  }
  if (no_ps_ns_ < 0) no_ps_ns_ = turn.now_ns();
  if (turn.now_ns() - no_ps_ns_ <= config_.ps_none_ns) return std::nullopt;
  return Error{ErrorCode::kPeersLost,
               str("no ps is left, and none returned within ", config_.ps_none_ns / kSecond, " s"),
               {},
               "run the job again: it resumes from the newest checkpoint"};
}

Error Recovery::missing_ps() const {
  std::string here;
  for (const Member& m : members_) {
    if (m.is_ps() && m.live()) here += str(here.empty() ? "" : ", ", m.full_name());
  }
  const uint32_t live = members_.ps_live();
  return {live == 0 ? ErrorCode::kUnavailable : ErrorCode::kPeersLost,
          str(live, " of ", config_.ps_cores_expected, " ps cores joined within ",
              config_.start_timeout_ns / kSecond, " s", here.empty() ? "" : " (joined: ", here,
              here.empty() ? "" : ")"),
          {},
          config_.job.cluster.ps_in_workers
              ? "start the missing workers with --with-ps, or set cluster.workers to their number"
              : "start the missing ps, or set cluster.ps to the number of available ps and "
                "cluster.ps_threads to the threads of each"};
}

}  // namespace downpour::chief
