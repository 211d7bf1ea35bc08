// ChiefCore: fallback to the newest whole checkpoint before a damaged one, if the job allows it.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

void ChiefCore::on_damage(Turn& turn, const Member& member, const wire::Adopted& adopted) {
  const bool in_use = config_.mode != wire::Purpose::kTrain && begun_;
  if (auto error = checkpoints_.on_damage(turn, member, adopted, in_use))
    fail(turn, std::move(*error));
}

/// If no epoch was sealed between the two checkpoints, only the lost partitions are restored from
/// the older one. All other partitions still have the watermarks of the unsealed epochs. Otherwise
/// they have dropped watermarks that the older checkpoint needs, and every partition is restored
/// from it.
void ChiefCore::on_older(int64_t now_ns, Result<ResumeState> older, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (ending()) return;
  std::optional<Error> damage = checkpoints_.take_damage();
  if (!damage) return;
  if (!older) return fail(turn, std::move(*damage));
  const ViewId from = checkpoints_.newest().checkpoint;
  const bool some = begun_ && older->sealed_epochs == history_.sealed();
  defended(some ? Defence::kChiefDamageSome : Defence::kChiefDamageAll);
  turn.notice(NoticeLevel::kWarning,
              str("checkpoint ", from, " is damaged: ", damage->what, "; ",
                  some ? "these partitions come back from" : "all go back to", " checkpoint ",
                  older->checkpoint));
  checkpoints_.fall_back_to(*older);
  if (moves_.under_way()) cancel_move(turn, "a checkpoint is damaged");
  turn.outbox().drop<wire::Adopt>();
  ownership_.take_back();
  if (some) return restore(turn);
  const uint32_t sealed_epochs = older->sealed_epochs;
  history_.limit_resumed(older->epochs.size());
  if (!begun_ && config_.mode == wire::Purpose::kTrain) history_.replace_results(std::move(*older));
  go_back_all(turn, sealed_epochs);
}

void ChiefCore::go_back_all(Turn& turn, uint32_t sealed_epochs) {
  history_.unseal(sealed_epochs);
  interrupt(turn, "everything goes back");
  if (!begun_) {
    history_.restart_from(sealed_epochs);
    claimed_ = false;
    ownership_.forget_claims();
    const std::vector<Member*> cores = ps_cores(members_);
    if (cores.empty()) return enter(turn, Phase::kGathering);  // place() runs when ps arrive
    return give_ranges(turn, cores);
  }
  // The older images may hold markers of epochs that were sealed later.
  if (config_.mode == wire::Purpose::kTrain) quarantine_.forget_what_others_know();
  // This includes the copies of a ps that is silent or leaving: they have dropped watermarks that
  // the older checkpoint needs. The reconciliation after the next view finds how far the epochs are
  // then.
  ownership_.invalidate();
  restore(turn);
}

}  // namespace downpour::chief
