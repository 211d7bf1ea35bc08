#include "chief/core/cluster/moves.h"

#include <algorithm>

#include "chief/core/cluster/placement.h"
#include "shared/base/defence.h"
#include "shared/base/plain_name.h"

namespace downpour::chief {

bool Moves::begin_leaving(Turn& turn, const Member& member) {
  const auto same_process = [&](const Member& m) {
    return m.is_ps() && m.incarnation() == member.incarnation();
  };
  const bool holds = members_.find_if([&](const Member& m) {
    return same_process(m) &&
           (ownership_.concerns(ps_key(m)) || (!ownership_.published() && !m.hello.claims.empty()));
  }) != nullptr;
  const auto stays = [&](const Member& m) { return m.is_ps() && !m.leaving && !same_process(m); };
  const bool others =
      members_.find_if([&](const Member& m) { return stays(m) && m.live(); }) != nullptr;
  if (holds && (!others || config_.moves_folder.empty())) {
    // The ps repeats its Leave. By then a lost ps may be back, and lost partitions have an owner.
    const bool awaited = members_.find_if([&](const Member& m) {
      return stays(m) && !m.live() && turn.now_ns() - m.heard_ns < config_.ps_wait_ns;
    }) != nullptr;
    return !awaited && ownership_.whole();
  }
  for (Member& m : members_) {
    if (!same_process(m) || m.leaving) continue;
    m.leaving = true;
    turn.log(turn.event("leaving").add("who", m.name()));
    turn.notice(NoticeLevel::kInfo, str(m.full_name(), " is leaving: its ",
                                        ownership_.load(ps_key(m)), " partitions move to others"));
  }
  return false;
}

void Moves::check_leaving() {
  const auto stays = [](const Member& m) { return m.is_ps() && m.live() && !m.leaving; };
  if (members_.find_if(stays) != nullptr) return;
  for (Member& m : members_) m.leaving = false;
}

bool Moves::overdue(const Turn& turn) const {
  return move_ && turn.now_ns() - move_->begun_ns > timeout_ns();
}

bool Moves::may_begin(const Turn& turn) const {
  return !config_.moves_folder.empty() && !move_ && turn.now_ns() >= move_at_ns_ &&
         turn.outbox().empty();
}

void Moves::begin_next(Turn& turn) {
  if (!rebalance(turn) && config_.job.cluster.rebalance && !continue_offloading(turn))
    offload(turn);
}

/// Moves the next bundle towards equal numbers of partitions. With `cluster.rebalance` this happens
/// only if a core leaves or holds less than half of an even share; then it continues until the
/// numbers are equal. Without it, it always happens.
bool Moves::rebalance(Turn& turn) {
  std::vector<Member*> cores;
  std::vector<CoreLoad> loads;
  for (Member& m : members_) {
    if (!m.is_ps() || !m.live()) continue;
    const uint32_t holds = ownership_.load(ps_key(m));
    const bool takes = takes_partitions(turn, m);
    if (holds == 0 && !takes) continue;  // cannot take part
    cores.push_back(&m);
    loads.push_back({holds, m.leaving, takes});
  }
  rebalancing_ = rebalancing_ || !config_.job.cluster.rebalance || is_lopsided(loads);
  if (!rebalancing_) return false;
  const auto step = next_move(loads);
  rebalancing_ = step.has_value();
  if (!step) return false;
  offloading_.reset();
  std::vector<PartitionId> partitions = ownership_.owned(ps_key(*cores[step->source]));
  // Take the last ones, so that the remaining partitions form few ranges; with groups, the last
  // ones of each.
  if (traits_of(config_.job.train.mode).has_groups) {
    const uint32_t of_group = ownership_.partition_count() / 2;
    std::ranges::stable_sort(partitions, {}, [&](PartitionId p) { return raw(p) % of_group; });
  }
  const size_t count = std::min({size_t(step->partitions), size_t(move_size_), partitions.size()});
  partitions.erase(partitions.begin(), partitions.end() - std::ptrdiff_t(count));
  std::ranges::sort(partitions);
  begin_move(turn, *cores[step->source], *cores[step->target], std::move(partitions));
  return true;
}

/// Decides whether a busy core offloads partitions to the least busy one. Requires load reports of
/// all cores since ownership last changed.
void Moves::offload(Turn& turn) {
  if (turn.now_ns() < offload_at_ns_ || !work_.changed()) return;
  std::vector<Member*> cores = ps_cores(members_);
  std::erase_if(cores, [&](const Member* m) {
    return !takes_partitions(turn, *m) && ownership_.load(ps_key(*m)) == 0;
  });
  std::vector<CoreWork> works;
  for (const Member* m : cores) {
    std::optional<CoreWork> work = work_.work(ps_key(*m));
    if (!work) return;
    // All partitions that it owns count, also those without requests.
    std::vector<CoreWork::Share> shares;
    for (const PartitionId p : ownership_.owned(ps_key(*m))) {
      const auto at = std::lower_bound(work->partitions.begin(), work->partitions.end(), p,
                                       [](const CoreWork::Share& share, PartitionId wanted) {
                                         return share.partition < wanted;
                                       });
      const bool asked_for = at != work->partitions.end() && at->partition == p;
      shares.push_back({p, asked_for ? at->work : 0});
    }
    work->partitions = std::move(shares);
    works.push_back(std::move(*work));
  }
  const auto offload = choose_offload(works);
  if (!offload || !takes_partitions(turn, *cores[offload->target])) return;
  const Member &source = *cores[offload->source], &target = *cores[offload->target];
  const auto percent = [&](size_t core) { return uint32_t(100 * works[core].busy); };
  turn.log(turn.event("offload")
               .add("from", source.name())
               .add("to", target.name())
               .add("partitions", offload->partitions.size())
               .add("busy_percent_from", percent(offload->source))
               .add("busy_percent_to", percent(offload->target)));
  turn.notice(NoticeLevel::kInfo,
              str(source.name(), " is busy ", percent(offload->source), " % of the time, and ",
                  target.name(), ' ', percent(offload->target), " %: ", offload->partitions.size(),
                  offload->partitions.size() == 1 ? " partition moves to the less busy one"
                                                  : " partitions move to the less busy one"));
  offload_at_ns_ = turn.now_ns() + config_.offload_pause_ns;
  offloading_ = Offloading{ps_key(source), ps_key(target), offload->partitions};
  continue_offloading(turn);
}

/// Moves the next bundle of the decided partitions. Stops if either side is gone, or the target
/// leaves.
bool Moves::continue_offloading(Turn& turn) {
  if (!offloading_) return false;
  Offloading& r = *offloading_;
  Member* source = find(r.source);
  Member* target = find(r.target);
  const std::vector<PartitionId> owned = ownership_.owned(r.source);
  std::erase_if(r.partitions,
                [&](PartitionId p) { return !std::binary_search(owned.begin(), owned.end(), p); });
  const bool both = source != nullptr && target != nullptr && source->live() && target->live() &&
                    !target->leaving;
  if (!both || r.partitions.empty()) {
    offloading_.reset();
    return false;
  }
  const auto count = std::ptrdiff_t(std::min<size_t>(move_size_, r.partitions.size()));
  std::vector<PartitionId> bundle(r.partitions.begin(), r.partitions.begin() + count);
  r.partitions.erase(r.partitions.begin(), r.partitions.begin() + count);
  std::sort(bundle.begin(), bundle.end());
  begin_move(turn, *source, *target, std::move(bundle));
  if (move_) move_->offloads = true;
  return true;
}

void Moves::begin_move(Turn& turn, Member& source, Member& target,
                       std::vector<PartitionId> partitions) {
  if (partitions.empty()) return;
  if (!target.received) partitions.erase(partitions.begin() + 1, partitions.end());
  move_ = Move{.source = ps_key(source),
               .target = ps_key(target),
               .ownership_generation = ownership_.next_ownership_generation(),
               .partitions = std::move(partitions),
               .begun_ns = turn.now_ns()};
  turn.log(turn.event("move")
               .add("since_n", move_->ownership_generation.n)
               .add("from", source.name())
               .add("to", target.name())
               .add("first", raw(move_->partitions.front()))
               .add("partitions", move_->partitions.size()));
  turn.ask(source, wire::Freeze{.ownership_generation = move_->ownership_generation,
                                .partitions = move_->partitions,
                                .folder = config_.moves_folder});
}

std::optional<std::string> Moves::on_frozen(Turn& turn, const Member& member, wire::Frozen&& frozen,
                                            Bytes&& inlined, wire::Adopt&& adopt) {
  if (!move_ || move_->given || move_->ownership_generation != frozen.ownership_generation ||
      ps_key(member) != move_->source) {
    defended(Defence::kChiefFrozenLate);
    return std::nullopt;
  }
  turn.outbox().answered(member);
  Member* target = find(move_->target);
  if (!frozen.ok) return frozen.error;
  if (target == nullptr || !target->live()) return "the target ps was lost";
  if (ownership_.adopting(ps_key(*target)))
    return str(target->full_name(), " is still restoring other partitions");
  std::sort(frozen.images.begin(), frozen.images.end(),
            [](const auto& a, const auto& b) { return a.partition < b.partition; });
  const bool all =
      std::equal(frozen.images.begin(), frozen.images.end(), move_->partitions.begin(),
                 move_->partitions.end(), [](const wire::ImageRef& image, PartitionId p) {
                   return image.partition == p && is_plain_name(image.file);
                 });
  if (!all) return str(member.full_name(), " wrote different images than requested");
  move_->given = true;
  move_->frozen_ns = turn.now_ns();
  move_->inlined = std::move(inlined);
  ownership_.give(turn.now_ns(), move_->partitions, owner_from(*target),
                  move_->ownership_generation);
  adopt.ownership_generation = move_->ownership_generation;
  adopt.partitions = move_->partitions;
  adopt.folder = config_.moves_folder;
  adopt.images = std::move(frozen.images);
  turn.ask(*target, std::move(adopt), move_->inlined);
  return std::nullopt;
}

void Moves::blame_target(Turn& turn) {
  if (!move_ || !move_->given) return;
  constexpr int64_t kPauseNs = 30 * kSecond;
  Target& state = targets_[move_->target];
  state.move_at_ns = turn.now_ns() + (kPauseNs << std::min(state.failures++, 7U));
}

/// Returns the time limit of the current move. It is shorter for a target that has never taken over
/// a partition, because training waits for the move.
int64_t Moves::timeout_ns() const {
  const Member* target = find(move_->target);
  if (target == nullptr || target->received) return config_.move_timeout_ns;
  const auto state = targets_.find(move_->target);
  const uint32_t failures = state == targets_.end() ? 0 : state->second.failures;
  return std::min(config_.move_timeout_ns, (2 * kSecond) << std::min(failures, 7U));
}

void Moves::probe_ps(Turn& turn) {
  std::erase_if(targets_, [&](const auto& target) { return find(target.first) == nullptr; });
  for (Member& m : members_) {
    if (!m.is_ps() || !m.live() || m.answers || ownership_.adopting(ps_key(m))) continue;
    Target& target = targets_[ps_key(m)];
    if (turn.now_ns() < target.probe_at_ns) continue;
    target.probe_at_ns = turn.now_ns() + (kSecond << std::min(target.probes++, 6U));
    turn.send(m, wire::Adopt{.ownership_generation = {config_.term, 0}}, turn.next_request());
  }
}

void Moves::cancel(Turn& turn, const std::string& why) {
  const Move move = *std::exchange(move_, std::nullopt);
  defended(Defence::kChiefMoveCancelled);
  turn.log(
      turn.event("move_cancelled").add("since_n", move.ownership_generation.n).add("why", why));
  turn.notice(NoticeLevel::kWarning,
              str("a move of ", move.partitions.size(), " partitions was cancelled: ", why));
  for (const PsKey& key : {move.source, move.target}) {
    const Member* member = find(key);
    if (member == nullptr) continue;
    if (turn.outbox().waits_for<wire::Freeze>(*member) ||
        turn.outbox().waits_for<wire::Adopt>(*member)) {
      turn.outbox().answered(*member);
    }
  }
  constexpr int64_t kPauseAfterFailureNs = 2 * kSecond;
  move_at_ns_ = turn.now_ns() + (kPauseAfterFailureNs << std::min(moves_failed_++, 8U));
  move_size_ = 1;
  offloading_.reset();
  // If the source has not reported Frozen, it may still serve the partitions. A new generation
  // would make it drop them.
  const auto ownership_generation =
      move.given ? std::optional(ownership_.next_ownership_generation()) : std::nullopt;
  ownership_.keep(move.partitions, ownership_generation);
  const Member* source = find(move.source);
  // A source that another process replaces is still a member here, but its partitions are lost.
  if (source == nullptr || !source->live() || ownership_.is_gone(move.source))
    unresolved_[move.source] = move;
}

/// Completes the move after a view: the partitions belong to the target, and the pause is over.
void Moves::settle(Turn& turn) {
  if (!move_) return;
  const Move move = *std::exchange(move_, std::nullopt);
  if (!move.given) return turn.outbox().drop<wire::Freeze>();  // this view lets the source continue
  const int64_t pause_ns = turn.now_ns() - move.begun_ns;
  counts_.partitions += uint32_t(move.partitions.size());
  moves_failed_ /= 2;
  targets_[move.target].failures = 0;
  if (move.offloads) counts_.offloaded += uint32_t(move.partitions.size());
  counts_.pause_ns_max = std::max(counts_.pause_ns_max, pause_ns);
  turn.log(turn.event("moved")
               .add("since_n", move.ownership_generation.n)
               .add("partitions", move.partitions.size())
               .add("pause_us", pause_ns / kMicrosecond)
               .add("freeze_us", (move.frozen_ns - move.begun_ns) / kMicrosecond)
               .add("bytes", move.inlined.size()));
  if (pause_ns > config_.move_pause_wanted_ns) {
    move_size_ = std::max(1U, move_size_ / 2);
  } else if (2 * pause_ns < config_.move_pause_wanted_ns) {
    move_size_ = std::min(config_.move_partitions_max, move_size_ + 1);
  }
  move_at_ns_ = turn.now_ns() + 4 * pause_ns;  // so that partitions are served most of the time
}

void Moves::dismiss_drained_ps(Turn& turn) {
  for (Member& m : members_) {
    if (!m.is_ps() || !m.leaving || !m.live() || turn.outbox().waits_for(m)) continue;
    const bool holds = members_.find_if([&](const Member& other) {
      return other.is_ps() && other.incarnation() == m.incarnation() &&
             ownership_.concerns(ps_key(other));
    }) != nullptr;
    if (!holds) turn.ask(m, wire::Stop{0, "its partitions have moved to other ps"});
  }
}

void Moves::on_view_published(Turn& turn) {
  work_.reset();
  settle(turn);
  std::erase_if(unresolved_, [&](const auto& u) { return !ownership_.owner_number(u.first); });
}

bool Moves::forget_ps(PsKey ps) {
  work_.forget(ps);
  // The source of a move is not needed any more once the target has the images.
  return move_ && (move_->target == ps || (move_->source == ps && !move_->given));
}

void Moves::on_ps_returned(PsKey ps, uint32_t found) {
  const auto frozen = unresolved_.extract(ps);
  if (found == 0 || frozen.empty()) return;
  defended(Defence::kChiefFrozenReturns);
  std::vector<PartitionId> own = ownership_.owned(ps);
  const Move& move = frozen.mapped();
  std::erase_if(own, [&](PartitionId p) {
    return std::find(move.partitions.begin(), move.partitions.end(), p) == move.partitions.end();
  });
  ownership_.keep(
      own, move.given ? std::optional(ownership_.next_ownership_generation()) : std::nullopt);
}

}  // namespace downpour::chief
