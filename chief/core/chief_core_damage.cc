// ChiefCore: fallback to the newest whole checkpoint before a damaged one, if the job allows it.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

namespace {

/// Returns true for errors of files that another checkpoint may not have.
bool is_damage(ErrorCode code) {
  return code == ErrorCode::kBadData || code == ErrorCode::kNoInput || code == ErrorCode::kIo ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kPermission;
}

}  // namespace

void ChiefCore::on_damage(Turn& turn, const Member& member, const wire::Adopted& adopted) {
  // A read error of the disk does not prove that the files are damaged. The job can be run again.
  const bool files_are_bad = is_damage(adopted.code) && adopted.code != ErrorCode::kIo;
  Error error{files_are_bad ? ErrorCode::kBadData : adopted.code,
              str(member.full_name(), " could not take up its partitions: ", adopted.error),
              published_folder_};
  if (published_images_.empty() || !is_damage(adopted.code)) return fail(turn, std::move(error));
  error.hint = "no older checkpoint is whole; restore the folder, or start anew with --fresh";
  if (!config_.job.train.checkpoint.fall_back) {
    error.hint = "train.checkpoint.fall_back = true goes on from an older one that is whole";
    return fail(turn, std::move(error));
  }
  // The results of an evaluation so far come from this checkpoint.
  if (config_.mode != wire::Purpose::kTrain && begun_) return fail(turn, std::move(error));
  turn.log(turn.event("damaged")
               .add("term", published_checkpoint_.term)
               .add("n", published_checkpoint_.n)
               .add("who", member.name())
               .add("why", adopted.error));
  defended(Defence::kChiefDamage);
  damage_ = std::move(error);
  turn.emit(FindOlder{published_checkpoint_});
}

/// If no epoch was sealed between the two checkpoints, only the lost partitions are restored from
/// the older one. All other partitions still have the watermarks of the unsealed epochs. Otherwise
/// they have dropped watermarks that the older checkpoint needs, and every partition is restored
/// from it.
void ChiefCore::on_older(int64_t now_ns, Result<ResumeState> older, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (!damage_ || ending()) return;
  Error damage = *std::exchange(damage_, std::nullopt);
  if (!older) return fail(turn, std::move(damage));
  const ViewId from = published_checkpoint_;
  const bool some = begun_ && older->sealed_epochs == epochs_sealed_;
  defended(some ? Defence::kChiefDamageSome : Defence::kChiefDamageAll);
  turn.notice(NoticeLevel::kWarning,
              str("checkpoint ", from, " is damaged: ", damage.what, "; ",
                  some ? "these partitions come back from" : "all go back to", " checkpoint ",
                  older->checkpoint));
  published_checkpoint_ = older->checkpoint;
  published_folder_ = std::move(older->folder);
  published_images_ = std::move(older->images);
  best_checkpoint_ = older->best;
  schedule_.want();  // so that the newest checkpoint is whole again
  if (moves_.under_way()) cancel_move(turn, "a checkpoint is damaged");
  turn.outbox().drop<wire::Adopt>();
  ownership_.take_back();
  if (some) return restore(turn);
  epochs_resumed_ = std::min(epochs_resumed_, uint32_t(older->epochs.size()));
  if (!begun_ && config_.mode == wire::Purpose::kTrain) {
    epochs_ = std::move(older->epochs);
    evaluations_ = std::move(older->evaluations);
    partial_epoch_ = !epochs_.empty() && epochs_.back().is_partial();
    drop_partial_epoch();
    epochs_resumed_ = uint32_t(epochs_.size());
  }
  go_back_all(turn, older->sealed_epochs);
}

void ChiefCore::go_back_all(Turn& turn, uint32_t sealed_epochs) {
  epochs_sealed_ = sealed_epochs;
  interrupt(turn, "everything goes back");
  if (!begun_) {
    epochs_complete_ = epoch_ = sealed_epochs;
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
