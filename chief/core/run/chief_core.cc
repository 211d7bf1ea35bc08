#include "chief/core/run/chief_core.h"

#include <utility>

#include "chief/core/cluster/ps_cores.h"
#include "shared/base/defence.h"

namespace downpour::chief {

ChiefCore::ChiefCore(ChiefConfig config)
    : config_(std::move(config)),
      report_(config_, members_),
      // Evaluation and prediction accept a model of any plan.
      ownership_(config_.term, config_.partition_bits,
                 config_.mode == wire::Purpose::kTrain ? config_.plan_hash : 0),
      moves_(config_, members_, ownership_),
      turn_state_{.config = config_,
                  .view = ownership_.view(),
                  .log_budget = LogBudget({.burst = 1024}),
                  .outbox = Outbox(config_.resend_ns)},
      admission_(config_, members_, ownership_),
      recovery_(config_, members_, ownership_, moves_),
      lifecycle_(config_, members_, ownership_, moves_, report_) {
  DP_CHECK(config_.run != 0);
  DP_CHECK(config_.ps_cores_expected > 0);
  DP_CHECK(uint64_t(1) << config_.partition_bits == config_.job.partitions, config_.partition_bits,
           config_.job.partitions);
}

// ---- events

void ChiefCore::on_start(int64_t now_ns, Effects& effects) {
  Turn turn(turn_state_, now_ns, effects);
  turn_state_.start_ns = turn.now_ns();
  lifecycle_.start(turn);
}

void ChiefCore::on_message(int64_t now_ns, PeerKey peer, wire::Message&& message, Effects& effects,
                           const wire::PeerIdentity& identity) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  const wire::Envelope& envelope = message.envelope;
  const auto* hello = std::get_if<wire::Hello>(&message.body);
  if (admission_.turns_away(turn, peer, message)) return;
  if (hello != nullptr) {
    // A worker that knows the run ends when it sees another plan. It repeats its Hello, and gets an
    // answer when the claims of the ps have shown that this chief may continue.
    const bool waits =
        config_.new_plan && gathering() && envelope.run != 0 && hello->role != wire::Role::kPs;
    return waits ? void() : on_hello(turn, peer, *hello, envelope, identity);
  }
  Member* member = members_.find(peer);
  if (member == nullptr) {
    member = admission_.rebind(peer, message.body, identity);
  } else if (!identity.may_be(member->hello.role)) {  // the list of keys has changed
    return admission_.refuse(turn, peer, wire::wrong_role(identity, member->hello.role), envelope);
  }
  if (member == nullptr) {
    defended(Defence::kChiefUnknownPeer);
    return turn.reply(
        peer, envelope,
        wire::Reject{ErrorCode::kUnavailable, "the chief does not know this process: send Hello"});
  }
  if (member->left) return;  // late message after Goodbye
  member->heard_ns = turn.now_ns();
  member->cut_off = false;
  if (std::exchange(member->silent, false)) on_back(turn, *member);
  handle(turn, *member, std::move(message));
  lifecycle_.raise_floor(turn);
  lifecycle_.commit_step(turn);
}

void ChiefCore::on_tick(int64_t now_ns, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  lifecycle_.note_steps();
  check_silence(turn);
  if (gathering()) place(turn);
  if (!ending()) lifecycle_.check_idle_leases(turn);
  if (!ending()) check_ps(turn);
  if (!ending()) check_moves(turn);
  if (!ending()) check_workers(turn);
  lifecycle_.check_rounds(turn);
  lifecycle_.raise_floor(turn);
  if (!ending()) lifecycle_.check_save(turn);
  lifecycle_.commit_step(turn);
  if (gathering() && !lifecycle_.stop_overdue(turn) &&
      lifecycle_.phases().lasted_ns(turn) > config_.start_timeout_ns) {
    lifecycle_.fail(turn, recovery_.missing_ps());
  } else if (!finished()) {
    lifecycle_.check_limits(turn);
  }
  turn.repeat(turn.outbox(), members_);
  turn.repeat(lifecycle_.checkpoints().outbox(), members_);
  if (!finished() && report_.progress_due(turn)) lifecycle_.show_progress(turn);
  turn.log_withheld();
}

void ChiefCore::on_published(int64_t now_ns, ViewId checkpoint, Result<void> result,
                             Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  lifecycle_.on_published(turn, checkpoint, result);
}

/// If no epoch was sealed between the two checkpoints, only the lost partitions are restored from
/// the older one. All other partitions still have the watermarks of the unsealed epochs. Otherwise
/// they have dropped watermarks that the older checkpoint needs, and every partition is restored
/// from it.
void ChiefCore::on_older(int64_t now_ns, Result<ResumeState> older, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (ending()) return;
  std::optional<Error> damage = lifecycle_.checkpoints().take_damage();
  if (!damage) return;
  if (!older) return lifecycle_.fail(turn, std::move(*damage));
  const bool some = lifecycle_.restores_some_from(*older);
  defended(some ? Defence::kChiefDamageSome : Defence::kChiefDamageAll);
  lifecycle_.checkpoints().fall_back_to(turn, *older, damage->what, some);
  if (moves_.under_way()) cancel_move(turn, "a checkpoint is damaged");
  turn.outbox().drop<wire::Adopt>();
  ownership_.take_back();
  if (some) return restore(turn);
  lifecycle_.go_back_to(turn, std::move(*older));
  if (!lifecycle_.begun()) {
    if (!recovery_.place_anew(turn, restore_point(), lifecycle_.adopt_request()))
      lifecycle_.wait_for_ps(turn);  // place() runs when ps arrive
    return;
  }
  // This includes the copies of a ps that is silent or leaving: they have dropped watermarks that
  // the older checkpoint needs. The reconciliation after the next view finds how far the epochs are
  // then.
  ownership_.invalidate();
  restore(turn);
}

void ChiefCore::on_peer_gone(int64_t now_ns, PeerKey peer, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (Member* member = members_.find(peer)) member->cut_off = true;
}

void ChiefCore::request_stop(int64_t now_ns, int signal, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  lifecycle_.stop(turn, signal, "the chief");
}

void ChiefCore::on_fatal(int64_t now_ns, Error error, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  lifecycle_.fail(turn, std::move(error));
}

void ChiefCore::on_process_ended(int64_t now_ns, const EndedProcess& ended, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  for (Member& member : members_) {
    if (member.left || member.hello.role != ended.role || member.hello.index != ended.index ||
        member.hello.pid != ended.pid) {
      continue;
    }
    if (ended.goodbye) continue;  // its Goodbye has its last figures
    member.left = true;           // a process that takes its index does not wait
    turn.outbox().answered(member);
    turn.log(turn.event("process_ended").add("who", member.name()).add("pid", ended.pid));
    if (ending()) continue;
    if (member.is_worker()) {
      if (!std::exchange(member.silent, true)) report_.note_worker_lost();
      lifecycle_.take_back_leases(turn, member, true);
    } else if (member.is_input()) {
      on_inputs_changed(turn);
    } else {
      on_ps_lost(turn, member, "its process ended");
    }
  }
  if (ended.stop_signal != 0) lifecycle_.stop(turn, ended.stop_signal, str("process ", ended.pid));
  if (lifecycle_.phases().stopping()) lifecycle_.finish_if_alone(turn);
  lifecycle_.raise_floor(turn);
}

void ChiefCore::on_newer_term(int64_t now_ns, uint32_t term, Effects& effects) {
  if (finished() || term <= config_.term) return;
  Turn turn(turn_state_, now_ns, effects);
  lifecycle_.supersede(turn, term);
}

// ---- messages

void ChiefCore::handle(Turn& turn, Member& member, wire::Message&& message) {
  // The envelope names the view that the member knows. If it is old, send the current one again.
  if (ownership_.published() && !ending() && !member.is_input() &&
      std::holds_alternative<wire::Heartbeat>(message.body) &&
      message.envelope.view < ownership_.view().id && member.views.allows(turn.now_ns())) {
    turn.send(member, ownership_.view());
  }
  wire::Body& body = message.body;
  if (auto* heartbeat = std::get_if<wire::Heartbeat>(&body))
    return on_heartbeat(turn, member, std::move(*heartbeat));
  if (auto* goodbye = std::get_if<wire::Goodbye>(&body))
    return on_goodbye(turn, member, std::move(*goodbye));
  if (ending()) return;
  if (const auto* leave = std::get_if<wire::Leave>(&body)) return on_leave(turn, member, *leave);
  if (member.is_worker() && handle_of_worker(turn, member, message)) return;
  if (member.is_ps() && handle_of_ps(turn, member, message)) return;
  if (const auto* reject = std::get_if<wire::Reject>(&body)) {
    const std::string_view what = reject->what;
    return turn.log_of(
        member.peer,
        turn.event("rejected").add("who", member.name()).add("what", what.substr(0, 256)));
  }
  turn.send(
      member,
      wire::Reject{ErrorCode::kMalformed, str("not a message for the chief from ", member.name())},
      message.envelope.request);
}

/// Handles a message that only workers send. Returns false if it is another one.
bool ChiefCore::handle_of_worker(Turn& turn, Member& member, wire::Message& message) {
  wire::Body& body = message.body;
  if (const auto* lease = std::get_if<wire::LeaseRequest>(&body)) {
    lifecycle_.on_lease_request(turn, member, *lease, message.envelope.request);
  } else if (const auto* progress = std::get_if<wire::ShardProgress>(&body)) {
    lifecycle_.on_shard_progress(turn, member, message.envelope.view, *progress);
  } else if (const auto* failed = std::get_if<wire::ShardFailed>(&body)) {
    lifecycle_.on_shard_failed(turn, member, *failed);
  } else if (auto* evaluated = std::get_if<wire::EvalReport>(&body)) {
    lifecycle_.on_eval_report(turn, member, std::move(*evaluated));
  } else if (const auto* clock = std::get_if<wire::Clock>(&body)) {
    lifecycle_.on_clock(turn, member, *clock);
  } else if (auto* predicted = std::get_if<wire::PredictReport>(&body)) {
    lifecycle_.on_predict_report(turn, member, std::move(*predicted), std::move(message.values));
  } else {
    return false;
  }
  return true;
}

/// Handles a message that only ps send. Returns false if it is another one.
bool ChiefCore::handle_of_ps(Turn& turn, Member& member, wire::Message& message) {
  wire::Body& body = message.body;
  if (const auto* adopted = std::get_if<wire::Adopted>(&body)) {
    on_adopted(turn, member, *adopted);
  } else if (auto* status = std::get_if<wire::StatusReply>(&body)) {
    lifecycle_.on_status(turn, member, std::move(*status));
  } else if (auto* staged = std::get_if<wire::Staged>(&body)) {
    lifecycle_.on_staged(member, message.envelope.view, std::move(*staged));
  } else if (const auto* committed = std::get_if<wire::Committed>(&body)) {
    lifecycle_.on_committed(turn, member, message.envelope.view, *committed, message.values);
  } else if (auto* frozen = std::get_if<wire::Frozen>(&body)) {
    const auto failure = moves_.on_frozen(turn, member, std::move(*frozen),
                                          std::move(message.values), lifecycle_.adopt_request());
    if (failure) cancel_move(turn, *failure);
  } else if (auto* saved = std::get_if<wire::Saved>(&body)) {
    lifecycle_.on_saved(turn, member, std::move(*saved));
  } else {
    return false;
  }
  return true;
}

void ChiefCore::on_heartbeat(Turn& turn, Member& member, wire::Heartbeat&& heartbeat) {
  // Metrics of another model are ignored.
  if (heartbeat.recent.size() <= config_.job.model.outputs.size()) {
    report_.take_metrics(heartbeat.recent, lifecycle_.phases().training());
  }
  if (member.is_ps() && ownership_.published() && config_.job.cluster.rebalance)
    moves_.take_report(ps_key(member), heartbeat);
  const wire::Failure failure = std::exchange(heartbeat.failure, {});
  keep_last(member, std::move(heartbeat));
  if (ending()) return;
  // A ps that owns nothing cannot end the job.
  if (!failure.what.empty() && member.is_ps() && ownership_.concerns(ps_key(member)))
    return lifecycle_.fail(turn, Error{failure.code,
                                       str(member.full_name(), ": ", failure.what),
                                       {},
                                       failure.hint,
                                       failure.id});
  lifecycle_.repeat_floor(turn, member);
  admission_.answer_heartbeat(turn, member, lifecycle_.history().sealed());
}

void ChiefCore::on_goodbye(Turn& turn, Member& member, wire::Goodbye&& goodbye) {
  keep_last(member, std::move(goodbye.last));
  member.left = true;
  turn.outbox().answered(member);
  lifecycle_.checkpoints().outbox().answered(member);
  turn.log_of(member.peer, turn.event("goodbye").add("who", member.name()));
  if (ending()) return lifecycle_.finish_if_alone(turn);
  if (member.is_ps()) return on_ps_lost(turn, member, "the process exited");
  turn.notice_of(member.peer, NoticeLevel::kInfo, str(member.full_name(), " left"));
  if (member.is_input()) return on_inputs_changed(turn);
  lifecycle_.take_back_leases(turn, member, false);
}

/// SIGINT or SIGTERM to a process that `downpour train` started stops the whole job. A signal to a
/// process that was started by hand removes that process from the job.
void ChiefCore::on_leave(Turn& turn, Member& member, const wire::Leave& leave) {
  const bool first = std::exchange(member.stop_signal, stop_signal_from(leave.signal)) == 0;
  const std::string receiver = member.full_name();
  if (first)
    turn.log(turn.event("leave").add("who", member.name()).add("signal", member.stop_signal));
  if (config_.local) {
    if (first && !lifecycle_.stop_requested()) {
      turn.notice(NoticeLevel::kInfo,
                  str(receiver, " received ", signal_name(member.stop_signal), ": the job stops"));
    }
    return lifecycle_.stop(turn, member.stop_signal, receiver);
  }
  if (member.is_ps() && moves_.begin_leaving(turn, member))
    lifecycle_.stop(turn, member.stop_signal, receiver);
}

// ---- members

void ChiefCore::on_hello(Turn& turn, PeerKey peer, const wire::Hello& hello,
                         const wire::Envelope& envelope, const wire::PeerIdentity& identity) {
  const bool late = ending();
  if (late && !lifecycle_.takes_late()) {
    const Error error{ErrorCode::kUnavailable, "the job has already ended"};
    return admission_.refuse(turn, peer, error, envelope);
  }
  Result<Member*> admitted = admit(turn, peer, hello, identity);
  if (!admitted) return admission_.refuse(turn, peer, admitted.error(), envelope);
  if (*admitted == nullptr) return;  // undecided: it repeats its Hello
  Member& member = **admitted;
  member.key = identity.key;
  if (!member.welcomes.allows(turn.now_ns())) return;
  admission_.welcome(turn, member, envelope.request, train_shards());
  turn.repeat_to(member, turn.outbox());
  turn.repeat_to(member, lifecycle_.checkpoints().outbox());
  if (late) return lifecycle_.end_late(turn, member);
  if (gathering()) return place(turn);
  if (member.is_ps()) restore(turn);
  if (member.is_input()) on_inputs_changed(turn);
}

Result<Member*> ChiefCore::admit(Turn& turn, PeerKey peer, wire::Hello hello,
                                 const wire::PeerIdentity& identity) {
  const Admission::Scope scope{.gathering = gathering(),
                               .sealed_epochs = lifecycle_.history().sealed()};
  DP_TRY(const Admission::Verdict verdict, admission_.examine(turn, peer, hello, identity, scope));
  if (verdict.waits) return nullptr;
  if (verdict.known != nullptr) {
    if (verdict.returned && verdict.known->is_ps()) on_ps_returned(turn, *verdict.known);
    return verdict.known;
  }
  for (Member* displaced : verdict.displaced) {
    if (displaced->is_ps()) on_ps_lost(turn, *displaced, "the process was restarted");
    replace(turn, *displaced);
  }
  DP_TRY(Member * oldest, admission_.room_for(hello.role));
  if (oldest != nullptr) replace(turn, *oldest);
  const bool placed = !gathering() && !ending();
  Member& member = admission_.add(turn, peer, std::move(hello));
  if (!member.is_ps()) return &member;
  if (placed && ownership_.whole()) {
    turn.notice_of(peer, NoticeLevel::kInfo, str(member.name(), " joins: partitions move to it"));
  }
  on_ps_returned(turn, member);  // it may have been replaced before, by a process that is gone now
  return &member;
}

void ChiefCore::replace(Turn& turn, Member& member) {
  report_.keep_figures(member);
  if (member.is_worker()) lifecycle_.take_back_leases(turn, member, true);
  turn.outbox().answered(member);
  lifecycle_.checkpoints().outbox().answered(member);
  members_.remove(member);
}

void ChiefCore::on_back(Turn& turn, Member& member) {
  admission_.report_return(turn, member);
  if (member.is_ps()) on_ps_returned(turn, member);
  if (member.is_input()) on_inputs_changed(turn);
}

void ChiefCore::on_inputs_changed(Turn& turn) {
  if (ending()) return;
  lifecycle_.on_inputs_changed();
  admission_.send_inputs(turn);
}

void ChiefCore::check_silence(Turn& turn) {
  for (Member& member : members_) {
    if (member.left) continue;
    if (admission_.falls_silent(turn, member)) {
      if (ending()) continue;
      on_silent(turn, member);
    }
    if (ending()) return;
  }
}

void ChiefCore::on_silent(Turn& turn, Member& member) {
  const int64_t silence_ns = turn.now_ns() - member.heard_ns;
  admission_.report_silence(turn, member);
  if (member.is_ps())
    return on_ps_lost(turn, member, str("no message for ", silence_ns / kSecond, " s"));
  if (member.is_input()) return on_inputs_changed(turn);
  report_.note_worker_lost();
  lifecycle_.take_back_leases(turn, member, true);
}

void ChiefCore::check_workers(Turn& turn) {
  auto error = admission_.check_workers(turn, lifecycle_.phases().leasing());
  if (!error) return;
  if (const int signal = admission_.signal_of_departed_workers(); signal != 0)
    return lifecycle_.stop(turn, signal, "the last worker");
  lifecycle_.fail(turn, std::move(*error));
}

}  // namespace downpour::chief
