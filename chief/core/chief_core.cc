#include "chief/core/chief_core.h"

#include <algorithm>

#include "shared/base/defence.h"
#include "shared/base/mutate.h"

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
      history_(config_),
      rounds_(config_),
      checkpoints_(config_, members_, ownership_, history_) {
  DP_CHECK(config_.run != 0);
  DP_CHECK(config_.ps_cores_expected > 0);
  DP_CHECK(uint64_t(1) << config_.partition_bits == config_.job.partitions, config_.partition_bits,
           config_.job.partitions);
  train_shards_ =
      plan::ShardMap(plan::cut_streams(config_.train_files, config_.shard_bytes, config_.streams),
                     config_.job.seed, config_.joining);
  eval_from_files_ = !config_.eval_files.empty();
  eval_ranges_ =
      eval_from_files_
          ? plan::cut_shards(config_.eval_files,
                             plan::eval_shard_bytes(config_.joining, config_.shard_bytes))
          : plan::cut_shards(config_.train_files, config_.shard_bytes);
  had_input_ = config_.job.cluster.input_workers > 0;
}

// ---- events

void ChiefCore::on_start(int64_t now_ns, Effects& effects) {
  Turn turn(turn_state_, now_ns, effects);
  turn_state_.start_ns = phase_ns_ = turn.now_ns();
  turn.log(turn.event("start")
               .add("run", config_.run)
               .add("term", config_.term)
               .add("plan", config_.plan_hash)
               .add("train_shards", train_shards_.open_piece() > 0 ? 0 : train_shards())
               .add("sealed_epochs", history_.sealed()));
  // A stop may have come between the last epoch and its evaluation. Then the evaluation follows
  // now.
  if (config_.mode == wire::Purpose::kTrain && history_.trained() && history_.evaluated())
    return finish(turn);
  history_.drop_partial();
  const bool no_input =
      config_.mode == wire::Purpose::kTrain ? train_shards() == 0 : eval_ranges_.empty();
  if (no_input) fail(turn, Error{ErrorCode::kNoInput, "the data set has no bytes to read"});
}

void ChiefCore::on_message(int64_t now_ns, PeerKey peer, wire::Message&& message, Effects& effects,
                           const wire::PeerIdentity& identity) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  const wire::Envelope& envelope = message.envelope;
  const auto* hello = std::get_if<wire::Hello>(&message.body);
  if (envelope.run != config_.run && (envelope.run != 0 || hello == nullptr)) {
    defended(Defence::kChiefOtherRun);
    const Error error{ErrorCode::kUnavailable,
                      "this chief runs another job",
                      {},
                      "stop this process, or give it the address of its own chief"};
    if (hello != nullptr) return refuse(turn, peer, error, envelope);
    return turn.reply(peer, envelope, wire::Reject{error.code, error.what});
  }
  // Any process can claim a term. Only the run folder proves that a newer chief exists; the shell
  // watches it (on_newer_term).
  if (envelope.view.term > config_.term && !DP_MUTATE("old-chief-obeyed")) {
    defended(Defence::kChiefNewerTermClaimed);
    return turn.log_of(peer, turn.event("newer_term_claimed").add("term", envelope.view.term));
  }
  if (hello != nullptr) {
    // A worker that knows the run ends when it sees another plan. It repeats its Hello, and gets an
    // answer when the claims of the ps have shown that this chief may continue.
    const bool waits = config_.new_plan && phase_ == Phase::kGathering && envelope.run != 0 &&
                       hello->role != wire::Role::kPs;
    return waits ? void() : on_hello(turn, peer, *hello, envelope, identity);
  }
  Member* member = members_.find(peer);
  if (member == nullptr) {
    member = rebind_by_heartbeat(peer, message.body, identity);
  } else if (!identity.may_be(member->hello.role)) {  // the list of keys has changed
    return refuse(turn, peer, wire::wrong_role(identity, member->hello.role), envelope);
  }
  if (member == nullptr) {
    defended(Defence::kChiefUnknownPeer);
    return turn.reply(
        peer, envelope,
        wire::Reject{ErrorCode::kUnavailable, "the chief does not know you: say Hello"});
  }
  if (member->left) return;  // late message after Goodbye
  member->heard_ns = turn.now_ns();
  member->cut_off = false;
  if (member->silent) {
    defended(Defence::kChiefMemberBack);
    member->silent = false;
    if (member->is_worker()) no_worker_ns_ = -1;
    turn.log_of(peer, turn.event("back").add("who", member->name()));
    turn.notice_of(peer, NoticeLevel::kInfo, str(member->full_name(), " is back"));
    if (member->is_ps()) on_ps_returned(turn, *member);
    if (member->is_input()) tell_inputs(turn);
  }
  handle(turn, *member, std::move(message));
}

void ChiefCore::handle(Turn& turn, Member& member, wire::Message&& message) {
  // The envelope names the view that the member knows. If it is old, send the current one again.
  if (ownership_.published() && !ending() && !member.is_input() &&
      std::holds_alternative<wire::Heartbeat>(message.body) &&
      (message.envelope.view < ownership_.view().id || DP_MUTATE("old-chief-obeyed")) &&
      member.views.allows(turn.now_ns())) {
    turn.send(member, ownership_.view());
  }
  wire::Body& body = message.body;
  const RequestId request = message.envelope.request;
  if (auto* heartbeat = std::get_if<wire::Heartbeat>(&body))
    return on_heartbeat(turn, member, std::move(*heartbeat));
  if (auto* goodbye = std::get_if<wire::Goodbye>(&body))
    return on_goodbye(turn, member, std::move(*goodbye));
  if (ending()) return;
  if (const auto* leave = std::get_if<wire::Leave>(&body)) return on_leave(turn, member, *leave);
  if (member.is_worker()) {
    if (auto* lease = std::get_if<wire::LeaseRequest>(&body))
      return on_lease_request(turn, member, *lease, request);
    if (auto* progress = std::get_if<wire::ShardProgress>(&body))
      return on_shard_progress(turn, member, *progress);
    if (auto* failed = std::get_if<wire::ShardFailed>(&body))
      return on_shard_failed(turn, member, *failed);
    if (auto* report = std::get_if<wire::EvalReport>(&body))
      return on_eval_report(turn, member, std::move(*report));
    if (auto* report = std::get_if<wire::PredictReport>(&body)) {
      return on_predict_report(turn, member, std::move(*report), std::move(message.values));
    }
  } else if (member.is_ps()) {
    if (auto* adopted = std::get_if<wire::Adopted>(&body))
      return on_adopted(turn, member, *adopted);
    if (auto* status = std::get_if<wire::StatusReply>(&body))
      return on_status(turn, member, std::move(*status));
    if (auto* frozen = std::get_if<wire::Frozen>(&body)) {
      const auto failure = moves_.on_frozen(turn, member, std::move(*frozen),
                                            std::move(message.values), adopt_request());
      return failure ? cancel_move(turn, *failure) : void();
    }
    if (auto* saved = std::get_if<wire::Saved>(&body))
      return handle(turn, checkpoints_.on_saved(turn, member, std::move(*saved)));
  }
  if (std::holds_alternative<wire::Reject>(body)) {
    const auto& reject = std::get<wire::Reject>(body);
    return turn.log_of(member.peer, turn.event("rejected")
                                        .add("who", member.name())
                                        .add("what", std::string_view(reject.what).substr(0, 256)));
  }
  turn.send(
      member,
      wire::Reject{ErrorCode::kMalformed, str("not a message for the chief from ", member.name())},
      request);
}

void ChiefCore::on_tick(int64_t now_ns, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  steps_max_ = std::max(steps_max_, steps_done());
  check_silence(turn);
  if (phase_ == Phase::kGathering) place(turn);
  if (!ending()) check_idle_leases(turn);
  if (!ending()) check_ps(turn);
  if (!ending()) check_moves(turn);
  if (!ending()) check_workers(turn);
  if (config_.job.train.steps > 0 && phase_ == Phase::kTraining) check_pass_end(turn);
  if (rounds_.due(turn) && (phase_ == Phase::kReconciling || phase_ == Phase::kCompleting)) {
    begin_round(turn);
  }
  if (!ending()) check_save(turn);
  if (!finished()) check_limits(turn);
  const auto again = [&](wire::Role role, Incarnation to, uint32_t thread,
                         const Outbox::Request& request) {
    const Member* member = members_.find(role, to, thread);
    if (member != nullptr) turn.send_again(*member, request);
  };
  turn.outbox().tick(turn.now_ns(), again);
  checkpoints_.outbox().tick(turn.now_ns(), again);
  if (!finished() && report_.progress_due(turn)) show_progress(turn);
  turn.log_withheld();
}

void ChiefCore::on_fatal(int64_t now_ns, Error error, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (!ending()) fail(turn, std::move(error));
}

// ---- time

void ChiefCore::check_silence(Turn& turn) {
  // A core that loads its partitions may be silent for longer.
  const auto ps_silence_max_ns = [&](const Member& member) {
    return ownership_.adopting(ps_key(member))
               ? std::max(config_.member_silence_ns, config_.lease_stall_ns)
               : config_.member_silence_ns;
  };
  for (Member& member : members_) {
    if (member.left) continue;
    const int64_t silence_ns = turn.now_ns() - member.heard_ns;
    if (member.is_worker() && !member.silent && silence_ns > config_.lease_ns &&
        !DP_MUTATE("no-lease-expiry")) {
      member.silent = true;
      if (ending()) continue;
      defended(Defence::kChiefLeaseExpired);
      ++workers_lost_;
      log_silent(turn, member);
      turn.notice_of(member.peer, NoticeLevel::kWarning,
                     str(member.full_name(), " is silent: its shards go to others"));
      take_back_leases(turn, member, true);
    } else if (member.is_ps() && !member.silent && silence_ns > ps_silence_max_ns(member)) {
      member.silent = true;
      if (ending()) continue;
      log_silent(turn, member);
      on_ps_lost(turn, member, str("silent for ", silence_ns / kSecond, " s"));
    } else if (member.is_input() && !member.silent && silence_ns > config_.lease_ns) {
      member.silent = true;
      if (ending()) continue;
      log_silent(turn, member);
      turn.notice_of(member.peer, NoticeLevel::kWarning,
                     str(member.full_name(), " is silent: others read instead"));
      tell_inputs(turn);
    }
    if (ending()) return;
  }
}

void ChiefCore::check_idle_leases(Turn& turn) {
  if (!leasing() || DP_MUTATE("no-lease-expiry")) return;
  const auto idle = table_.idle(turn.now_ns() - config_.lease_idle_ns,
                                turn.now_ns() - config_.lease_stall_ns, config_.joining.in_order);
  for (const LeaseTable::Held& held : idle) {
    // A worker that sends nothing at all may have died. Then the time limit for its silence ends
    // the lease, and counts a failed attempt.
    const Member* worker = members_.find_worker(held.worker);
    if (worker != nullptr && worker->live() &&
        turn.now_ns() - worker->heard_ns > config_.heartbeat_ns) {
      continue;
    }
    defended(Defence::kChiefLeaseIdle);
    turn.log(turn.event("idle")
                 .add("epoch", table_.epoch())
                 .add("shard", held.shard)
                 .add("attempt", table_.holder(held.shard, held.worker)->attempt));
    revoke(turn, held.shard, held.worker);
  }
}

void ChiefCore::check_limits(Turn& turn) {
  const int64_t in_phase_ns = turn.now_ns() - phase_ns_;
  switch (phase_) {
    case Phase::kGathering:
      if (stop_overdue(turn)) return end_unsaved(turn);
      if (in_phase_ns > config_.start_timeout_ns) {
        const bool none = members_.ps_live() == 0;
        fail(turn, Error{none ? ErrorCode::kUnavailable : ErrorCode::kPeersLost,
                         missing_ps(),
                         {},
                         "start the missing ps, or set cluster.ps to what there is"});
      }
      return;
    case Phase::kAdopting:
    case Phase::kReconciling:
      if (stop_overdue(turn)) end_unsaved(turn);
      return;
    case Phase::kStopping:
      if (in_phase_ns > config_.goodbye_wait_ns) finish(turn);
      return;
    default:
      return;
  }
}

void ChiefCore::check_workers(Turn& turn) {
  if (members_.workers_live() > 0) {
    no_worker_ns_ = -1;
    return;
  }
  if (no_worker_ns_ < 0) {
    no_worker_ns_ = had_worker_ ? turn.now_ns() : turn.start_ns();
    if (had_worker_) turn.notice(NoticeLevel::kWarning, "no worker is left: waiting for one");
  }
  if (!leasing()) return;  // workers have nothing to do now
  const int64_t wait_ns = had_worker_ ? config_.workers_wait_ns : config_.start_timeout_ns;
  if (turn.now_ns() - no_worker_ns_ <= wait_ns) return;
  if (const int signal = signal_of_departed_workers(); signal != 0)
    return stop(turn, signal, "the last worker");
  fail(turn, had_worker_ ? Error{ErrorCode::kPeersLost,
                                 str("no worker came back within ", wait_ns / kSecond, " s"),
                                 {},
                                 "run the job again: it goes on from the newest checkpoint"}
                         : Error{ErrorCode::kUnavailable,
                                 str("no worker came within ", wait_ns / kSecond, " s (",
                                     config_.workers_expected, " expected)"),
                                 {},
                                 "start workers with the chief's address"});
}

// ---- sending, the end

void ChiefCore::replace(Turn& turn, Member& member) {
  report_.keep_figures(member);
  if (member.is_worker()) take_back_leases(turn, member, true);
  turn.outbox().answered(member);
  checkpoints_.outbox().answered(member);
  members_.remove(member);
}

void ChiefCore::fail(Turn& turn, Error error) {
  if (ending()) return;
  turn.log(turn.event("failed")
               .add("code", exit_code(error.code))
               .add("what", error.what)
               .add("where", error.where));
  const int32_t code = exit_code(error.code);
  const std::string reason =
      error.where.empty() ? error.what : str(error.what, " (", error.where, ")");
  error_ = std::move(error);
  begin_stop(turn, code, reason);
}

void ChiefCore::begin_stop(Turn& turn, int32_t code, std::string reason) {
  code_ = code;
  turn.outbox().clear();
  checkpoints_.drop();
  enter(turn, Phase::kStopping);
  bool waiting = false;
  for (const Member& member : members_) {
    if (member.left) continue;
    turn.ask(member, wire::Stop{code, reason});
    waiting |= member.live();
  }
  if (!waiting) finish(turn);
}

/// Finishes if no live member is left to answer the Stop.
void ChiefCore::finish_if_alone(Turn& turn) {
  const bool waiting = members_.count([](const Member& m) { return m.live(); }) > 0;
  if (!waiting && !finished()) finish(turn);
}

/// Ends this chief without a message to the members, because they belong to the newer chief.
void ChiefCore::supersede(Turn& turn, uint32_t term) {
  if (finished()) return;
  defended(Defence::kChiefSuperseded);
  turn.log(turn.event("superseded").add("by_term", term));
  error_ =
      Error{ErrorCode::kUnavailable,
            str("a newer chief (term ", term, ") has taken over this run from term ", config_.term),
            config_.job.run_dir, "let the newer one finish; this one has stopped"};
  code_ = exit_code(error_->code);
  finish(turn);
}

void ChiefCore::on_newer_term(int64_t now_ns, uint32_t term, Effects& effects) {
  if (finished() || term <= config_.term) return;
  Turn turn(turn_state_, now_ns, effects);
  supersede(turn, term);
}

void ChiefCore::finish(Turn& turn) {
  enter(turn, Phase::kFinished);
  turn.outbox().clear();
  Finish effect{.code = code_, .error = error_, .summary = summary(turn)};
  effect.summary.already_finished = config_.mode == wire::Purpose::kTrain && code_ == 0 && !begun_;
  turn.log(turn.event("finish").add("code", code_).add("sealed_epochs", history_.sealed()));
  turn.emit(std::move(effect));
}

}  // namespace downpour::chief
