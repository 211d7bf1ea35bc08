// ChiefCore: the owners of partitions: placement, losses and returns of ps, restores and moves.
#include <utility>

#include "chief/core/cluster/placement.h"
#include "chief/core/run/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

/// Assigns an owner to every partition when enough ps have joined.
void ChiefCore::place(Turn& turn) {
  const Recovery::Plan plan = recovery_.plan(turn, lifecycle_.history().sealed());
  if (!plan.ready) return;
  if (plan.refused) return lifecycle_.leave_job(turn, *plan.refused);
  const RestorePoint& point = restore_point();
  if (auto valid = check_images(point.images, ownership_.partition_count()); !valid) {
    valid.error().where = point.folder;
    return lifecycle_.fail(turn, std::move(valid).error());
  }
  lifecycle_.begin_placing(turn, plan.claimed());
  recovery_.place(turn, plan, point, lifecycle_.adopt_request());
  if (ownership_.ready()) publish_view(turn);
}

void ChiefCore::publish_view(Turn& turn) {
  recovery_.publish_view(turn);
  lifecycle_.on_view_published(turn, recovery_.take_rolled_back());
}

void ChiefCore::on_adopted(Turn& turn, Member& member, const wire::Adopted& adopted) {
  switch (recovery_.on_adopted(turn, member, adopted)) {
    case Recovery::AdoptEvent::kNone:
      return;
    case Recovery::AdoptEvent::kMoveFailed:
      return cancel_move(turn, str(member.full_name(), ": ", adopted.error));
    case Recovery::AdoptEvent::kDamaged: {
      const bool in_use = config_.mode != wire::Purpose::kTrain && lifecycle_.begun();
      auto error = lifecycle_.checkpoints().on_damage(turn, member, adopted, in_use);
      return error ? lifecycle_.fail(turn, std::move(*error)) : void();
    }
    case Recovery::AdoptEvent::kAdopted:
      return ownership_.ready() ? publish_view(turn) : void();
  }
}

void ChiefCore::on_ps_lost(Turn& turn, Member& member, const std::string& why) {
  if (ending()) return;
  const Recovery::Loss loss = recovery_.lose(turn, member, why);
  if (loss.partitions > 0) {
    report_.note_ps_lost(member);
    // This comes before a view that may follow, so that it does not interrupt what that view
    // begins.
    lifecycle_.interrupt(turn, str(member.name(), " was lost"));
    if (lifecycle_.all_return()) return return_all(turn);
  }
  if (loss.ends_move) return cancel_move(turn, str(member.name(), " was lost"));
  if (loss.partitions == 0) return;
  // The next view may have waited only for this core. Or the partitions assigned to it are still
  // with their live owner; then no view is needed.
  if (ownership_.ready()) return publish_view(turn);
  if (ownership_.whole()) lifecycle_.continue_phase(turn);
}

/// Returns all partitions to the newest checkpoint, because the steps since then are lost at some
/// of them, and a step is applied at all partitions or at none.
void ChiefCore::return_all(Turn& turn) {
  defended(Defence::kChiefAllReturn);
  if (moves_.under_way()) cancel_move(turn, "all partitions return to the newest checkpoint");
  turn.outbox().drop<wire::Adopt>();
  ownership_.take_back();
  ownership_.invalidate();  // check_ps() restores them
}

void ChiefCore::on_ps_returned(Turn& turn, Member& member) {
  if (ending() || recovery_.reinstate(member) == 0) return;
  if (ownership_.ready()) return publish_view(turn);
  if (ownership_.whole()) lifecycle_.continue_phase(turn);
}

void ChiefCore::restore(Turn& turn) {
  // If a manifest is being written, its result decides from which checkpoint they are restored.
  if (ending() || gathering() || lifecycle_.checkpoints().publishing()) return;
  recovery_.restore(turn, restore_point(), lifecycle_.adopt_request());
}

void ChiefCore::check_ps(Turn& turn) {
  restore(turn);
  if (ending() || gathering()) return;
  if (lifecycle_.step_overdue(turn)) {
    lifecycle_.interrupt(turn, "some ps has not applied a step");
    return_all(turn);
  }
  moves_.probe_ps(turn);
  if (auto overdue = recovery_.overdue(turn)) {
    if (overdue->member == nullptr) return lifecycle_.fail(turn, std::move(overdue->error));
    defended(Defence::kChiefAdoptTimeout);
    on_ps_lost(turn, *overdue->member, overdue->why);
    return replace(turn, *overdue->member);
  }
  if (auto error = recovery_.check_none(turn)) lifecycle_.fail(turn, std::move(*error));
}

/// Begins the next move if one is wanted, and cancels one that takes too long.
void ChiefCore::check_moves(Turn& turn) {
  moves_.check_leaving();
  if (moves_.overdue(turn)) {
    moves_.blame_target(turn);
    cancel_move(turn, "it took too long");
  }
  moves_.dismiss_drained_ps(turn);
  if (moves_.may_begin(turn) && lifecycle_.may_move(turn)) moves_.begin_next(turn);
}

void ChiefCore::cancel_move(Turn& turn, const std::string& why) {
  moves_.cancel(turn, why);
  if (ownership_.ready()) publish_view(turn);
}

}  // namespace downpour::chief
