#include "chief/core/chief_core.h"

#include <algorithm>

#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

ChiefCore::Turn::Turn(ChiefCore& core, int64_t now_ns, Effects& effects) : core_(core) {
  DP_CHECK(core.effects_ == nullptr);
  core_.now_ns_ = std::max(core_.now_ns_, now_ns);
  core_.effects_ = &effects;
}

ChiefCore::ChiefCore(ChiefConfig config)
    : config_(std::move(config)),
      log_budget_({.burst = 1024}),
      outbox_(config_.resend_ns),
      // Evaluation and prediction accept a model of any plan.
      ownership_(config_.term, config_.partition_bits,
                 config_.mode == wire::Purpose::kTrain ? config_.plan_hash : 0),
      saving_(config_.resend_ns),
      schedule_(config_.job.train.checkpoint.every, config_.save_retry_ns) {
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
  // Evaluation ids are unique over all terms, so a late report never counts for another evaluation.
  last_evaluation_ = (config_.term - 1) << 16;
  if (config_.resume) {
    epochs_sealed_ = epochs_complete_ = epoch_ = config_.resume->sealed_epochs;
    published_images_ = config_.resume->images;
    published_checkpoint_ = config_.resume->checkpoint;
    published_folder_ = config_.resume->folder;
    best_checkpoint_ = config_.resume->best;
    epochs_ = config_.resume->epochs;
    epochs_resumed_ = uint32_t(epochs_.size());
    partial_epoch_ = !epochs_.empty() && epochs_.back().is_partial();
    evaluations_ = config_.resume->evaluations;
    for (const Evaluation& evaluation : evaluations_)
      last_evaluation_ = std::max(last_evaluation_, evaluation.id);
  }
}

// ---- events

void ChiefCore::on_start(int64_t now_ns, Effects& effects) {
  const Turn turn(*this, now_ns, effects);
  start_ns_ = phase_ns_ = now_ns;
  log(event("start")
          .add("run", config_.run)
          .add("term", config_.term)
          .add("plan", config_.plan_hash)
          .add("train_shards", train_shards_.open_piece() > 0 ? 0 : train_shards())
          .add("sealed_epochs", epochs_sealed_));
  // A stop may have come between the last epoch and its evaluation. Then the evaluation follows
  // now.
  if (config_.mode == wire::Purpose::kTrain && trained() && evaluated()) return finish();
  drop_partial_epoch();
  const bool no_input =
      config_.mode == wire::Purpose::kTrain ? train_shards() == 0 : eval_ranges_.empty();
  if (no_input) fail(Error{ErrorCode::kNoInput, "the data set has no bytes to read"});
}

void ChiefCore::on_message(int64_t now_ns, PeerKey peer, wire::Message&& message, Effects& effects,
                           const wire::PeerIdentity& identity) {
  if (finished()) return;
  const Turn turn(*this, now_ns, effects);
  const wire::Envelope& envelope = message.envelope;
  const auto* hello = std::get_if<wire::Hello>(&message.body);
  if (envelope.run != config_.run && (envelope.run != 0 || hello == nullptr)) {
    defended(Defence::kChiefOtherRun);
    const Error error{ErrorCode::kUnavailable,
                      "this chief runs another job",
                      {},
                      "stop this process, or give it the address of its own chief"};
    if (hello != nullptr) return refuse(peer, error, envelope);
    return reply(peer, envelope, wire::Reject{error.code, error.what});
  }
  // Any process can claim a term. Only the run folder proves that a newer chief exists; the shell
  // watches it (on_newer_term).
  if (envelope.view.term > config_.term && !DP_MUTATE("old-chief-obeyed")) {
    defended(Defence::kChiefNewerTermClaimed);
    return log_of(peer, event("newer_term_claimed").add("term", envelope.view.term));
  }
  if (hello != nullptr) {
    // A worker that knows the run ends when it sees another plan. It repeats its Hello, and gets an
    // answer when the claims of the ps have shown that this chief may continue.
    const bool waits = config_.new_plan && phase_ == Phase::kGathering && envelope.run != 0 &&
                       hello->role != wire::Role::kPs;
    return waits ? void() : on_hello(peer, *hello, envelope, identity);
  }
  Member* member = members_.find(peer);
  if (member == nullptr) {
    member = rebind_by_heartbeat(peer, message.body, identity);
  } else if (!identity.may_be(member->hello.role)) {  // the list of keys has changed
    return refuse(peer, wire::wrong_role(identity, member->hello.role), envelope);
  }
  if (member == nullptr) {
    defended(Defence::kChiefUnknownPeer);
    return reply(peer, envelope,
                 wire::Reject{ErrorCode::kUnavailable, "the chief does not know you: say Hello"});
  }
  if (member->left) return;  // late message after Goodbye
  member->heard_ns = now_ns_;
  member->cut_off = false;
  if (member->silent) {
    defended(Defence::kChiefMemberBack);
    member->silent = false;
    if (member->is_worker()) no_worker_ns_ = -1;
    log_of(peer, event("back").add("who", member->name()));
    notice_of(peer, NoticeLevel::kInfo, str(member->full_name(), " is back"));
    if (member->is_ps()) on_ps_returned(*member);
    if (member->is_input()) tell_inputs();
  }
  handle(*member, std::move(message));
}

void ChiefCore::handle(Member& member, wire::Message&& message) {
  // The envelope names the view that the member knows. If it is old, send the current one again.
  if (ownership_.published() && !ending() && !member.is_input() &&
      std::holds_alternative<wire::Heartbeat>(message.body) &&
      (message.envelope.view < ownership_.view().id || DP_MUTATE("old-chief-obeyed")) &&
      member.views.allows(now_ns_)) {
    send(member, ownership_.view());
  }
  wire::Body& body = message.body;
  const RequestId request = message.envelope.request;
  if (auto* heartbeat = std::get_if<wire::Heartbeat>(&body))
    return on_heartbeat(member, std::move(*heartbeat));
  if (auto* goodbye = std::get_if<wire::Goodbye>(&body))
    return on_goodbye(member, std::move(*goodbye));
  if (ending()) return;
  if (const auto* leave = std::get_if<wire::Leave>(&body)) return on_leave(member, *leave);
  if (member.is_worker()) {
    if (auto* lease = std::get_if<wire::LeaseRequest>(&body))
      return on_lease_request(member, *lease, request);
    if (auto* progress = std::get_if<wire::ShardProgress>(&body))
      return on_shard_progress(member, *progress);
    if (auto* failed = std::get_if<wire::ShardFailed>(&body))
      return on_shard_failed(member, *failed);
    if (auto* report = std::get_if<wire::EvalReport>(&body))
      return on_eval_report(member, std::move(*report));
    if (auto* report = std::get_if<wire::PredictReport>(&body)) {
      return on_predict_report(member, std::move(*report), std::move(message.values));
    }
  } else if (member.is_ps()) {
    if (auto* adopted = std::get_if<wire::Adopted>(&body)) return on_adopted(member, *adopted);
    if (auto* status = std::get_if<wire::StatusReply>(&body))
      return on_status(member, std::move(*status));
    if (auto* frozen = std::get_if<wire::Frozen>(&body))
      return on_frozen(member, std::move(*frozen), std::move(message.values));
    if (auto* saved = std::get_if<wire::Saved>(&body)) return on_saved(member, std::move(*saved));
  }
  if (std::holds_alternative<wire::Reject>(body)) {
    const auto& reject = std::get<wire::Reject>(body);
    return log_of(member.peer, event("rejected")
                                   .add("who", member.name())
                                   .add("what", std::string_view(reject.what).substr(0, 256)));
  }
  send(member,
       wire::Reject{ErrorCode::kMalformed, str("not a message for the chief from ", member.name())},
       request);
}

void ChiefCore::on_tick(int64_t now_ns, Effects& effects) {
  if (finished()) return;
  const Turn turn(*this, now_ns, effects);
  steps_max_ = std::max(steps_max_, steps_done());
  check_silence();
  if (phase_ == Phase::kGathering) place();
  if (!ending()) check_idle_leases();
  if (!ending()) check_ps();
  if (!ending()) check_moves();
  if (!ending()) check_workers();
  if (config_.job.train.steps > 0 && phase_ == Phase::kTraining) check_pass_end();
  if (round_at_ns_ > 0 && now_ns_ >= round_at_ns_ &&
      (phase_ == Phase::kReconciling || phase_ == Phase::kCompleting)) {
    begin_round();
  }
  if (!ending()) check_save();
  if (!finished()) check_limits();
  const auto again = [&](wire::Role role, Incarnation to, uint32_t thread, const wire::Body& body) {
    const Member* member = members_.find(role, to, thread);
    if (member != nullptr) send(*member, body, RequestId{++last_request_});
  };
  outbox_.tick(now_ns_, again);
  saving_.outbox.tick(now_ns_, again);
  if (!finished() && now_ns_ >= progress_at_ns_) show_progress();
  if (const auto withheld = log_budget_.report(now_ns_))
    log(event("lines_withheld").add("lines", *withheld));
}

void ChiefCore::on_fatal(int64_t now_ns, Error error, Effects& effects) {
  if (finished()) return;
  const Turn turn(*this, now_ns, effects);
  if (!ending()) fail(std::move(error));
}

// ---- time

void ChiefCore::check_silence() {
  // A core that loads its partitions may be silent for longer.
  const auto ps_silence_max_ns = [&](const Member& member) {
    return ownership_.adopting(ps_key(member))
               ? std::max(config_.member_silence_ns, config_.lease_stall_ns)
               : config_.member_silence_ns;
  };
  for (Member& member : members_) {
    if (member.left) continue;
    const int64_t silence_ns = now_ns_ - member.heard_ns;
    if (member.is_worker() && !member.silent && silence_ns > config_.lease_ns &&
        !DP_MUTATE("no-lease-expiry")) {
      member.silent = true;
      if (ending()) continue;
      defended(Defence::kChiefLeaseExpired);
      ++workers_lost_;
      log_silent(member);
      notice_of(member.peer, NoticeLevel::kWarning,
                str(member.full_name(), " is silent: its shards go to others"));
      take_back_leases(member, true);
    } else if (member.is_ps() && !member.silent && silence_ns > ps_silence_max_ns(member)) {
      member.silent = true;
      if (ending()) continue;
      log_silent(member);
      on_ps_lost(member, str("silent for ", silence_ns / kSecond, " s"));
    } else if (member.is_input() && !member.silent && silence_ns > config_.lease_ns) {
      member.silent = true;
      if (ending()) continue;
      log_silent(member);
      notice_of(member.peer, NoticeLevel::kWarning,
                str(member.full_name(), " is silent: others read instead"));
      tell_inputs();
    }
    if (ending()) return;
  }
}

void ChiefCore::check_idle_leases() {
  if (!leasing() || DP_MUTATE("no-lease-expiry")) return;
  const auto idle = table_.idle(now_ns_ - config_.lease_idle_ns, now_ns_ - config_.lease_stall_ns,
                                config_.joining.in_order);
  for (const LeaseTable::Held& held : idle) {
    // A worker that sends nothing at all may have died. Then the time limit for its silence ends
    // the lease, and counts a failed attempt.
    const Member* worker = members_.find_worker(held.worker);
    if (worker != nullptr && worker->live() && now_ns_ - worker->heard_ns > config_.heartbeat_ns) {
      continue;
    }
    defended(Defence::kChiefLeaseIdle);
    log(event("idle")
            .add("epoch", table_.epoch())
            .add("shard", held.shard)
            .add("attempt", table_.holder(held.shard, held.worker)->attempt));
    revoke(held.shard, held.worker);
  }
}

void ChiefCore::check_limits() {
  const int64_t in_phase_ns = now_ns_ - phase_ns_;
  switch (phase_) {
    case Phase::kGathering:
      if (stop_overdue()) return end_unsaved();
      if (in_phase_ns > config_.start_timeout_ns) {
        const bool none = members_.ps_live() == 0;
        fail(Error{none ? ErrorCode::kUnavailable : ErrorCode::kPeersLost,
                   missing_ps(),
                   {},
                   "start the missing ps, or set cluster.ps to what there is"});
      }
      return;
    case Phase::kAdopting:
    case Phase::kReconciling:
      if (stop_overdue()) end_unsaved();
      return;
    case Phase::kStopping:
      if (in_phase_ns > config_.goodbye_wait_ns) finish();
      return;
    default:
      return;
  }
}

void ChiefCore::check_workers() {
  if (members_.workers_live() > 0) {
    no_worker_ns_ = -1;
    return;
  }
  if (no_worker_ns_ < 0) {
    no_worker_ns_ = had_worker_ ? now_ns_ : start_ns_;
    if (had_worker_) notice(NoticeLevel::kWarning, "no worker is left: waiting for one");
  }
  if (!leasing()) return;  // workers have nothing to do now
  const int64_t wait_ns = had_worker_ ? config_.workers_wait_ns : config_.start_timeout_ns;
  if (now_ns_ - no_worker_ns_ <= wait_ns) return;
  if (const int signal = signal_of_departed_workers(); signal != 0)
    return stop(signal, "the last worker");
  fail(had_worker_ ? Error{ErrorCode::kPeersLost,
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

/// Answers a peer that may not be a member. Only a peer that names the run learns the run and the
/// view.
void ChiefCore::reply(PeerKey peer, const wire::Envelope& to, wire::Body body) {
  if (to.run == config_.run) return send(peer, std::move(body), to.request);
  emit(Send{.peer = peer,
            .message = {.envelope = {.request = to.request}, .body = std::move(body)}});
}

void ChiefCore::send(PeerKey peer, wire::Body body, RequestId request) {
  Send effect{.peer = peer, .message = {}};
  effect.message.envelope = {.run = config_.run, .view = ownership_.view().id, .request = request};
  effect.message.body = std::move(body);
  effect.message.values = values_of(effect.message.body);
  emit(std::move(effect));
}

void ChiefCore::ask(const Member& member, wire::Body body) {
  outbox_.put(now_ns_, member, body);
  send(member, std::move(body), RequestId{++last_request_});
}

void ChiefCore::replace(Member& member) {
  keep_figures(member);
  if (member.is_worker()) take_back_leases(member, true);
  outbox_.answered(member);
  saving_.outbox.answered(member);
  members_.remove(member);
}

void ChiefCore::fail(Error error) {
  if (ending()) return;
  log(event("failed")
          .add("code", exit_code(error.code))
          .add("what", error.what)
          .add("where", error.where));
  const int32_t code = exit_code(error.code);
  const std::string reason =
      error.where.empty() ? error.what : str(error.what, " (", error.where, ")");
  error_ = std::move(error);
  begin_stop(code, reason);
}

void ChiefCore::begin_stop(int32_t code, std::string reason) {
  code_ = code;
  outbox_.clear();
  saving_.end();
  enter(Phase::kStopping);
  bool waiting = false;
  for (const Member& member : members_) {
    if (member.left) continue;
    ask(member, wire::Stop{code, reason});
    waiting |= member.live();
  }
  if (!waiting) finish();
}

/// Finishes if no live member is left to answer the Stop.
void ChiefCore::finish_if_alone() {
  const bool waiting = members_.count([](const Member& m) { return m.live(); }) > 0;
  if (!waiting && !finished()) finish();
}

/// Ends this chief without a message to the members, because they belong to the newer chief.
void ChiefCore::supersede(uint32_t term) {
  if (finished()) return;
  defended(Defence::kChiefSuperseded);
  log(event("superseded").add("by_term", term));
  error_ =
      Error{ErrorCode::kUnavailable,
            str("a newer chief (term ", term, ") has taken over this run from term ", config_.term),
            config_.job.run_dir, "let the newer one finish; this one has stopped"};
  code_ = exit_code(error_->code);
  finish();
}

void ChiefCore::on_newer_term(int64_t now_ns, uint32_t term, Effects& effects) {
  if (finished() || term <= config_.term) return;
  const Turn turn(*this, now_ns, effects);
  supersede(term);
}

void ChiefCore::finish() {
  enter(Phase::kFinished);
  outbox_.clear();
  Finish effect{.code = code_, .error = error_, .summary = summary()};
  effect.summary.already_finished = config_.mode == wire::Purpose::kTrain && code_ == 0 && !begun_;
  log(event("finish").add("code", code_).add("sealed_epochs", epochs_sealed_));
  emit(std::move(effect));
}

}  // namespace downpour::chief
