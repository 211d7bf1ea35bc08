// World: what happens to a message on its way, with the faults at it.
#include "shared/base/str.h"
#include "tools/sim/world.h"

namespace downpour::sim {

/// Applies the plan's fault points to a message that arrives. Returns true if the message is lost.
bool World::lost_at_point(ProcessNumber from, const Process& to, const wire::Message& message) {
  for (const FaultPoint& point : spec_.faults.points) {
    if (point.body != message.body.index() || (point.to && *point.to != to.role())) continue;
    if (point.action == FaultPoint::Action::kRepeat) continue;
    if (point_rng_.uniform64() >= point.chance) continue;
    count("fault point");
    if (point.action == FaultPoint::Action::kLose) return true;
    apply_point(point.action, from, to.number());
  }
  return false;
}

void World::apply_point(FaultPoint::Action action, ProcessNumber from, ProcessNumber to) {
  using Action = FaultPoint::Action;
  if (action == Action::kPause) {
    const int64_t duration_ns = draw_duration(FaultKind::kPauseWorker, point_rng_);
    return void(scheduler_.after(0, [this, to, duration_ns] { pause(to, duration_ns); }));
  }
  if (action == Action::kStall) {
    return stall(to, from, draw_duration(FaultKind::kOneWay, point_rng_), false);
  }
  const ProcessNumber victim = action == Action::kKillSender ? from : to;
  const auto back_ns = int64_t(point_rng_.below(uint64_t(kSecond)));
  scheduler_.after(0, [this, victim, back_ns] { kill(victim, back_ns); });
}

/// Returns whether a fault point lets a copy of the message arrive later.
bool World::comes_again(ProcessNumber to, const wire::Message& message) {
  const Process* receiver = healed_ ? nullptr : find(to);
  if (receiver == nullptr) return false;
  for (const FaultPoint& point : spec_.faults.points) {
    if (point.action != FaultPoint::Action::kRepeat || point.body != message.body.index() ||
        (point.to && *point.to != receiver->role()) || point_rng_.uniform64() >= point.chance)
      continue;
    count("fault point");
    return true;
  }
  return false;
}

bool World::deliver(ProcessNumber from, ProcessNumber to, const wire::Message& message,
                    uint32_t checksum) {
  hash(uint64_t(scheduler_.now_ns()) ^ uint64_t(to) << 48);
  hash(checksum);
  Process* sender = find(from);
  Process* receiver = find(to);
  if (receiver == nullptr) return true;
  const bool losable =
      (lost_leases && (std::holds_alternative<wire::LeaseGrant>(message.body) ||
                       std::holds_alternative<wire::LeaseRevoked>(message.body))) ||
      (lost_views && std::holds_alternative<wire::View>(message.body));
  if (losable && outcome_.hash % 2 == 0) {
    count(lost_views && std::holds_alternative<wire::View>(message.body) ? "lost-view"
                                                                         : "lost-lease");
    return false;
  }
  if (!healed_ && lost_at_point(from, *receiver, message)) return false;
  if (spec_.trace != nullptr)
    trace(to,
          str("<- ", sender != nullptr ? sender->name() : str('#', from), "  ", describe(message)));
  if (on_message) on_message(*receiver, message);
  for (auto kill_at = phase_kills.begin(); kill_at != phase_kills.end(); ++kill_at) {
    if (kill_at->body != message.body.index()) continue;
    count("kill-in-phase");
    const ProcessNumber victim = kill_at->receiver ? to : from;
    scheduler_.after(0, [this, victim, back = kill_at->back_ns] { kill(victim, back); });
    phase_kills.erase(kill_at);
    break;
  }
  return true;
}

}  // namespace downpour::sim
