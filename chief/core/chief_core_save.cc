// ChiefCore: checkpoints. The job continues while one is written. Only the end of the job, a stop,
// and too many unsealed epochs wait for one (Phase::kSaving).
#include <algorithm>

#include "chief/core/chief_core.h"
#include "chief/core/placement.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

/// Requests a checkpoint, which begins as soon as possible.
void ChiefCore::want_save(Turn& turn) {
  checkpoints_.want();
  check_save(turn);
}

/// Begins a checkpoint that is due, and abandons one that takes too long.
void ChiefCore::check_save(Turn& turn) {
  if (checkpoints_.under_way()) {
    if (checkpoints_.overdue(turn)) save_failed(turn, "it took too long");
  } else if (save_due(turn)) {
    checkpoints_.begin(turn, steps(), phase_ == Phase::kSaving);
  }
  if (phase_ == Phase::kSaving && stop_overdue(turn)) {
    checkpoints_.stop_schedule(turn, steps());  // so that no other one begins
    save_failed(turn, "it took too long");
  }
}

/// Returns true if a checkpoint is due. The number of complete epochs must be certain, because the
/// checkpoint seals them.
bool ChiefCore::save_due(const Turn& turn) const {
  return settled() && config_.mode == wire::Purpose::kTrain &&
         (phase_ == Phase::kTraining || phase_ == Phase::kCompleting || phase_ == Phase::kSaving) &&
         checkpoints_.due(turn, steps());
}

void ChiefCore::handle(Turn& turn, const SaveResult& result) {
  switch (result.event) {
    case SaveEvent::kNone:
      return;
    case SaveEvent::kPublished:
      quarantine_.forget_below(history_.sealed());
      return after_save(turn, {});
    case SaveEvent::kFailed:
      return save_failed(turn, result.why);
    case SaveEvent::kPartialEpochGrew:
      // A worker that this chief does not know, for example with a lease of an earlier chief, has
      // continued. That shard must end, too.
      return reconcile(turn);
  }
}

void ChiefCore::save_failed(Turn& turn, const std::string& why) {
  after_save(turn, checkpoints_.fail(turn, why));
}

/// Continues whatever waited for the checkpoint, which was published, or failed because of `error`.
void ChiefCore::after_save(Turn& turn, const std::string& error) {
  if (checkpoints_.wanted()) return check_save(turn);  // the next checkpoint decides
  if (phase_ != Phase::kSaving) return;
  if (!error.empty() && stop_signal_ == 0 && !history_.trained() && checkpoints_.waits_for_best()) {
    checkpoints_.lose_best();
    turn.notice(NoticeLevel::kWarning,
                str("epoch ", history_.epochs_trained(),
                    " has the lowest evaluation loss, but its checkpoint failed: "
                    "eval and predict will use another epoch"));
    return next_epoch(turn);
  }
  if (!error.empty() && !checkpoints_.saved_since_stop()) {
    return fail(
        turn,
        Error{ErrorCode::kIo, str("the last checkpoint could not be written: ", error),
              checkpoints_.folder(), "free the disk or mend the folder, then run the job again"});
  }
  const bool last = history_.trained() && history_.sealed() >= history_.complete() &&
                    (!history_.partial() || history_.partial_saved());
  if (last && (history_.evaluated() || stop_signal_ == 0)) return begin_stop(turn, 0, {});
  if (stop_signal_ != 0) {
    error_ = interrupted(stop_signal_, true);
    return begin_stop(turn, 128 + stop_signal_, error_->what);
  }
  next_epoch(turn);
}

}  // namespace downpour::chief
