// ChiefCore: stop signals. SIGINT or SIGTERM to the chief, or to a process that `downpour train`
// started, stops the whole job: the leases end, a checkpoint is published, the exit status is
// 128 + signal. A signal to a process that was started by hand removes that process from the job.
#include "chief/core/chief_core.h"

namespace downpour::chief {

namespace {

constexpr int kInterruptSignal = 2;
constexpr int kTerminateSignal = 15;

/// A peer may report any number. Only these two request a stop.
int stop_signal_from(uint32_t reported) {
  return reported == uint32_t(kInterruptSignal) ? kInterruptSignal : kTerminateSignal;
}

const char* signal_name(int signal) { return signal == kInterruptSignal ? "SIGINT" : "SIGTERM"; }

}  // namespace

void ChiefCore::request_stop(int64_t now_ns, int signal, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  stop(turn, signal, "the chief");
}

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

void ChiefCore::on_leave(Turn& turn, Member& member, const wire::Leave& leave) {
  const bool first = std::exchange(member.stop_signal, stop_signal_from(leave.signal)) == 0;
  const std::string receiver = member.full_name();
  if (first)
    turn.log(turn.event("leave").add("who", member.name()).add("signal", member.stop_signal));
  if (config_.local) {
    if (first && stop_signal_ == 0) {
      turn.notice(NoticeLevel::kInfo,
                  str(receiver, " received ", signal_name(member.stop_signal), ": the job stops"));
    }
    return stop(turn, member.stop_signal, receiver);
  }
  if (member.is_ps()) leave_ps(turn, member);
}

/// Removes a ps that was started by hand. Its partitions move to other ps. Without another ps the
/// job stops, because the state in its memory would be lost.
void ChiefCore::leave_ps(Turn& turn, Member& member) {
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
    if (!awaited && ownership_.whole()) stop(turn, member.stop_signal, member.full_name());
    return;
  }
  for (Member& m : members_) {
    if (!same_process(m) || m.leaving) continue;
    m.leaving = true;
    turn.log(turn.event("leaving").add("who", m.name()));
    turn.notice(NoticeLevel::kInfo, str(m.full_name(), " leaves: its ", ownership_.load(ps_key(m)),
                                        " partitions move to others"));
  }
}

/// The stop signal that a worker reported before it left; 0: none of them did.
int ChiefCore::signal_of_departed_workers() const {
  for (const Member& m : members_) {
    if (m.is_worker() && m.left && m.stop_signal != 0) return m.stop_signal;
  }
  return 0;
}

Error interrupted(int signal, bool saved) {
  Error error{ErrorCode::kInterrupted, signal == 15  ? "stopped by SIGTERM"
                                       : signal == 2 ? "stopped by SIGINT"
                                                     : str("stopped by signal ", signal)};
  if (saved) error.hint = "run the same command again: it goes on from here";
  return error;
}

}  // namespace downpour::chief
