// ChiefCore: stop signals. SIGINT or SIGTERM to the chief, or to a process that `downpour train`
// started, stops the whole job: the leases end, a checkpoint is published, the exit status is
// 128 + signal. A signal to a process that was started by hand removes that process from the job.
#include "chief/core/chief_core.h"

namespace downpour::chief {

/// A signal to a process group reaches every process, so each of them reports it. Only the first
/// report has an effect. A job that is ending keeps its exit status.
void ChiefCore::stop(Turn& turn, int signal, const std::string& receiver) {
  if (stop_signal_ != 0 || ending()) return;
  stop_signal_ = signal;
  stop_ns_ = turn.now_ns();
  turn.log(turn.event("stop_requested").add("signal", signal).add("who", receiver));
  for (const uint32_t shard : table_.leased()) revoke_all(turn, shard);
  if (config_.mode != wire::Purpose::kTrain) return end_unsaved(turn);
  if (!ownership_.published()) {
    // Partitions with batches of an earlier chief's leases are placed first, then saved.
    if (!members_hold_state()) end_unsaved(turn);
    return;
  }
  // Parts in flight are not covered by the images. Their batches are read again after a resume.
  if (phase_ == Phase::kReconciling) {  // the number of complete epochs must be known first
    reconciled_phase_ = Phase::kSaving;
    return;
  }
  turn.outbox().drop<wire::StatusRequest>();
  rounds_.cancel_repeat();
  const bool waits_already = phase_ == Phase::kSaving && checkpoints_.under_way();
  enter(turn, Phase::kSaving);
  if (!waits_already) want_save(turn);
}

/// Ends a stop without a checkpoint: there is nothing to save, or saving took too long.
void ChiefCore::end_unsaved(Turn& turn) {
  error_ = interrupted(stop_signal_, false);
  begin_stop(turn, 128 + stop_signal_, error_->what);
}

/// True if a ps holds partitions that it received from an earlier chief.
bool ChiefCore::members_hold_state() const {
  if (claimed_) return true;
  return members_.count([](const Member& m) { return m.live() && !m.hello.claims.empty(); }) > 0;
}

Error interrupted(int signal, bool saved) {
  Error error{ErrorCode::kInterrupted, signal == 15  ? "stopped by SIGTERM"
                                       : signal == 2 ? "stopped by SIGINT"
                                                     : str("stopped by signal ", signal)};
  if (saved) error.hint = "run the same command again: it goes on from here";
  return error;
}

}  // namespace downpour::chief
