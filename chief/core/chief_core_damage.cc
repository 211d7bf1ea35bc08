// ChiefCore: a checkpoint that turns out to be damaged when partitions are to come back from it.
// The newest whole one before it is gone on from, where the job does not forbid it.
#include <algorithm>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"

namespace downpour::chief {

namespace {

/// Errors of files that another checkpoint need not have.
bool is_damage(ErrorCode code) {
  return code == ErrorCode::kBadData || code == ErrorCode::kNoInput || code == ErrorCode::kIo ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kPermission;
}

}  // namespace

void ChiefCore::on_damage(const Member& member, const wire::Adopted& adopted) {
  // A disk that fails to read says nothing about the files: the job can be run again.
  const bool files_are_bad = is_damage(adopted.code) && adopted.code != ErrorCode::kIo;
  Error error{files_are_bad ? ErrorCode::kBadData : adopted.code,
              str(member.full_name(), " could not take up its partitions: ", adopted.error),
              published_folder_};
  if (published_images_.empty() || !is_damage(adopted.code)) return fail(std::move(error));
  error.hint = "no older checkpoint is whole; restore the folder, or start anew with --fresh";
  if (!config_.job.train.checkpoint.fall_back) {
    error.hint = "train.checkpoint.fall_back = true goes on from an older one that is whole";
    return fail(std::move(error));
  }
  // What an evaluation has read so far came from this one.
  if (config_.mode != wire::Purpose::kTrain && begun_) return fail(std::move(error));
  log(event("damaged")
          .add("term", published_checkpoint_.term)
          .add("n", published_checkpoint_.n)
          .add("who", member.name())
          .add("why", adopted.error));
  defended(Defence::kChiefDamage);
  damage_ = std::move(error);
  emit(FindOlder{published_checkpoint_});
}

/// Where no epoch was sealed in between, only what was to come back from the damaged checkpoint
/// comes back from the older one: all others still know which batches of the unsealed epochs they
/// have. Else they have dropped watermarks that the older one needs, and everything goes back to
/// it.
void ChiefCore::on_older(int64_t now_ns, Result<ResumeState> older, Effects& effects) {
  if (finished()) return;
  const Turn turn(*this, now_ns, effects);
  if (!damage_ || ending()) return;
  Error damage = *std::exchange(damage_, std::nullopt);
  if (!older) return fail(std::move(damage));
  const ViewId from = published_checkpoint_;
  const bool some = begun_ && older->sealed_epochs == epochs_sealed_;
  defended(some ? Defence::kChiefDamageSome : Defence::kChiefDamageAll);
  notice(NoticeLevel::kWarning, str("checkpoint ", from, " is damaged: ", damage.what, "; ",
                                    some ? "these partitions come back from" : "all go back to",
                                    " checkpoint ", older->checkpoint));
  published_checkpoint_ = older->checkpoint;
  published_folder_ = std::move(older->folder);
  published_images_ = std::move(older->images);
  best_checkpoint_ = older->best;
  schedule_.want();  // the newest one should be whole
  if (move_) cancel_move("a checkpoint is damaged");
  outbox_.drop<wire::Adopt>();
  ownership_.take_back();
  if (some) return restore();
  epochs_resumed_ = std::min(epochs_resumed_, uint32_t(older->epochs.size()));
  if (!begun_ && config_.mode == wire::Purpose::kTrain) {
    epochs_ = std::move(older->epochs);
    evaluations_ = std::move(older->evaluations);
    partial_epoch_ = !epochs_.empty() && epochs_.back().is_partial();
    drop_partial_epoch();
    epochs_resumed_ = uint32_t(epochs_.size());
  }
  go_back_all(older->sealed_epochs);
}

void ChiefCore::go_back_all(uint32_t sealed_epochs) {
  epochs_sealed_ = sealed_epochs;
  interrupt("everything goes back");
  if (!begun_) {
    epochs_complete_ = epoch_ = sealed_epochs;
    claimed_ = false;
    ownership_.forget_claims();
    return give_ranges(ps_cores());
  }
  // The older images may hold lines of epochs that had been sealed since.
  if (config_.mode == wire::Purpose::kTrain) quarantine_.forget_what_others_know();
  // Also what a silent ps, or one that leaves, holds: its copy has dropped watermarks that the
  // older checkpoint needs. The survey after the next view finds how far the epochs are then.
  ownership_.invalidate();
  restore();
}

}  // namespace downpour::chief
