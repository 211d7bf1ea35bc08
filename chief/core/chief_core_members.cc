// ChiefCore: members that join and leave.
#include <algorithm>
#include <set>

#include "chief/core/chief_core.h"
#include "shared/base/defence.h"
#include "shared/base/mutate.h"

namespace downpour::chief {

namespace {

constexpr uint32_t kIndexMax = 1U << 16;  // a requested index must be lower
constexpr uint32_t kThreadsMax = 1024;    // a ps core's number must be lower
constexpr size_t kHostBytesMax = 255;     // limit for a host name
// "tcp://", a name of 253 bytes, a port and "?key=" with 64 digits need 334 bytes.
constexpr size_t kEndpointBytesMax = 360;

Error index_taken(const char* role, const Member& by) {
  return {ErrorCode::kUnavailable,
          str(role, " ", by.hello.index, " is taken by ", by.full_name()),
          {},
          "choose another --index, or leave it out"};
}

Error no_room(const char* members, uint32_t most) {
  return {ErrorCode::kUnavailable, str("the chief has ", most, " ", members, ", and no more fit")};
}

}  // namespace

void ChiefCore::on_hello(Turn& turn, PeerKey peer, const wire::Hello& hello,
                         const wire::Envelope& envelope, const wire::PeerIdentity& identity) {
  if (ending()) {
    return refuse(turn, peer, Error{ErrorCode::kUnavailable, "the job has ended"}, envelope);
  }
  Result<Member*> admitted = admit(turn, peer, hello, identity);
  if (!admitted) return refuse(turn, peer, admitted.error(), envelope);
  if (*admitted == nullptr) return;  // undecided: it repeats its Hello
  Member& member = **admitted;
  member.key = identity.key;
  if (!member.welcomes.allows(turn.now_ns())) return;
  welcome(turn, member, envelope.request);
  for (const Outbox* outbox : {&turn.outbox(), &checkpoints_.outbox()}) {
    if (const Outbox::Request* waiting = outbox->find(member)) {
      turn.send_again(member, *waiting);
    }
  }
  if (phase_ == Phase::kGathering) return place(turn);
  if (member.is_ps()) restore(turn);
  if (member.is_input()) tell_inputs(turn);
}

Result<Member*> ChiefCore::admit(Turn& turn, PeerKey peer, wire::Hello hello,
                                 const wire::PeerIdentity& identity) {
  if (!identity.may_be(hello.role)) return wire::wrong_role(identity, hello.role);
  if (hello.role == wire::Role::kChief || hello.incarnation == Incarnation{}) {
    return Error{ErrorCode::kMalformed, "a Hello without a role or an incarnation"};
  }
  if (hello.build != config_.build) {
    return Error{ErrorCode::kUnavailable,
                 str("this process is version ", hello.build.substr(0, kHostBytesMax),
                     ", the chief is version ", config_.build),
                 {},
                 "install the same version everywhere"};
  }
  if ((hello.index >= kIndexMax && hello.index != UINT32_MAX) || hello.thread >= kThreadsMax ||
      hello.host.size() > kHostBytesMax || hello.endpoint.size() > kEndpointBytesMax ||
      hello.claims.size() > ownership_.partition_count()) {
    return Error{ErrorCode::kMalformed,
                 str("a Hello beyond the limits: index ", hello.index, " (at most ", kIndexMax - 1,
                     "), core ", hello.thread, " (", kThreadsMax - 1, "), host name of ",
                     hello.host.size(), " bytes (", kHostBytesMax, "), endpoint of ",
                     hello.endpoint.size(), " bytes (", kEndpointBytesMax, "), ",
                     hello.claims.size(), " claims (", ownership_.partition_count(), ")")};
  }
  if (hello.role != wire::Role::kPs) hello.thread = 0;
  if (phase_ != Phase::kGathering) hello.claims = {};  // every partition has an owner already
  if (hello.role == wire::Role::kInput && hello.endpoint.empty()) {
    return Error{ErrorCode::kMalformed, "an input process said Hello without its endpoint"};
  }
  // A repeated Hello gets the same answer.
  if (Member* known = members_.find(hello.role, hello.incarnation, hello.thread)) {
    // An incarnation is not secret, because workers read those of the ps in the view.
    if (known->key != identity.key) {
      return Error{ErrorCode::kPermission,
                   str(known->full_name(), " joined with another key than `", identity.name, "`"),
                   {},
                   "start this process again with its own key"};
    }
    if (known->peer != peer) members_.rebind(*known, peer);
    known->heard_ns = turn.now_ns();
    known->cut_off = false;
    known->hello.claims = std::move(hello.claims);
    const bool was_away = known->silent || known->left;
    defended(Defence::kChiefHelloAgain);
    known->silent = known->left = false;
    if (was_away && known->is_ps()) on_ps_returned(turn, *known);
    return known;
  }
  if (members_.find(peer) != nullptr) {
    return Error{ErrorCode::kMalformed, "another process said Hello on this connection"};
  }
  return hello.role == wire::Role::kPs ? admit_ps(turn, peer, std::move(hello))
                                       : admit_worker(turn, peer, std::move(hello));
}

/// Returns true if one more member of the role fits. If the limit is reached, the member that has
/// been gone longest and owns nothing is removed.
bool ChiefCore::make_room(Turn& turn, wire::Role role) {
  const uint32_t most = role == wire::Role::kPs      ? config_.ps_cores_max
                        : role == wire::Role::kInput ? config_.inputs_max
                                                     : config_.workers_max;
  if (members_.count([&](const Member& m) { return m.hello.role == role; }) < most) return true;
  Member* oldest = nullptr;
  for (Member& m : members_) {
    const bool holds = m.is_ps() && ownership_.concerns(ps_key(m));
    if (m.hello.role != role || m.live() || holds) continue;
    if (oldest == nullptr || m.heard_ns < oldest->heard_ns) oldest = &m;
  }
  if (oldest != nullptr) replace(turn, *oldest);
  return oldest != nullptr;
}

/// Decides between a member and another process that asks for the member's index. The newer process
/// takes the index at once if the member has left, its connection is broken, or it has been silent
/// for the lease time. Otherwise the member gets a message. If the member then stays silent for
/// four heartbeat intervals, the newer process takes the index. If the member sends a message later
/// than one interval after the request, the newer process is refused.
/// A wrong decision does no harm to the partitions, because each transfer has its own ownership
/// generation.
ChiefCore::IndexConflict ChiefCore::index_conflict(Turn& turn, Member& old,
                                                   const wire::Hello& hello) {
  if (old.left || old.cut_off || turn.now_ns() - old.heard_ns > config_.lease_ns) {
    defended(Defence::kChiefIndexConflictReplaced);
    return IndexConflict::kReplaced;
  }
  if (old.contender != hello.incarnation) {
    // Only sending shows whether the connection is intact. The member gets these messages anyway.
    if (old.is_ps()) {
      turn.send(old, wire::Sealed{history_.sealed()});
    } else {
      turn.send(old, wire::Heartbeat{.incarnation = old.incarnation()});
    }
    old.contender = hello.incarnation;
    old.contended_ns = turn.now_ns();
    defended(Defence::kChiefIndexConflictWaits);
    return IndexConflict::kWait;
  }
  if (old.heard_ns > old.contended_ns + config_.heartbeat_ns) {
    defended(Defence::kChiefIndexConflictRefused);
    return IndexConflict::kRefused;
  }
  const int64_t patience_ns = std::min(config_.lease_ns, 4 * config_.heartbeat_ns);
  const int64_t quiet_ns = turn.now_ns() - std::max(old.heard_ns, old.contended_ns);
  return quiet_ns > patience_ns ? IndexConflict::kReplaced : IndexConflict::kWait;
}

Result<Member*> ChiefCore::admit_ps(Turn& turn, PeerKey peer, wire::Hello hello) {
  if (hello.endpoint.empty())
    return Error{ErrorCode::kMalformed, "a ps said Hello without its endpoint"};
  if (hello.index == UINT32_MAX) {  // the cores of a process share an index
    const Member* sibling = members_.find_if(
        [&](const Member& m) { return m.is_ps() && m.incarnation() == hello.incarnation; });
    std::set<uint32_t> taken;
    for (const Member& m : members_) {
      if (m.is_ps() && m.live()) taken.insert(m.hello.index);
    }
    hello.index = 0;
    if (sibling != nullptr) {
      hello.index = sibling->hello.index;
    } else {
      while (taken.contains(hello.index)) ++hello.index;
    }
  }
  std::vector<Member*> others;  // the cores of the process that has this index
  for (Member& m : members_) {
    if (m.is_ps() && m.hello.index == hello.index && m.incarnation() != hello.incarnation)
      others.push_back(&m);
  }
  for (Member* other : others) {
    const IndexConflict result = index_conflict(turn, *other, hello);
    if (result == IndexConflict::kWait) return nullptr;
    if (result == IndexConflict::kRefused) return index_taken("ps", *other);
  }
  for (Member* other : others) {
    on_ps_lost(turn, *other, "it was started anew");
    replace(turn, *other);
  }
  if (!make_room(turn, hello.role)) return no_room("ps cores", config_.ps_cores_max);
  const bool placed = phase_ != Phase::kGathering;
  Member& member =
      members_.add(Member{.hello = std::move(hello), .peer = peer, .heard_ns = turn.now_ns()});
  if (placed && ownership_.whole()) {
    turn.notice_of(peer, NoticeLevel::kInfo, str(member.name(), " joins: partitions move to it"));
  }
  on_ps_returned(turn, member);  // it may have been replaced before, by a process that is gone now
  return &member;
}

/// Admits a worker or an input process. Each role has its own indices.
Result<Member*> ChiefCore::admit_worker(Turn& turn, PeerKey peer, wire::Hello hello) {
  if (hello.index == UINT32_MAX) {
    // A worker that is only paused keeps its index for a while, so that it can continue later.
    const auto is_gone = [&](const Member& m) {
      return m.left || turn.now_ns() - m.heard_ns > config_.member_silence_ns;
    };
    std::set<uint32_t> taken;
    for (const Member& m : members_) {
      if (m.hello.role == hello.role && !is_gone(m)) taken.insert(m.hello.index);
    }
    for (hello.index = 0; taken.contains(hello.index);) ++hello.index;
  }
  if (Member* old = members_.find(hello.role, hello.index, 0)) {
    const IndexConflict result = index_conflict(turn, *old, hello);
    if (result == IndexConflict::kWait) return nullptr;
    if (result == IndexConflict::kRefused) return index_taken(old->role_name(), *old);
    replace(turn, *old);
  }
  const bool input = hello.role == wire::Role::kInput;
  if (!make_room(turn, hello.role)) {
    return no_room(input ? "input processes" : "workers",
                   input ? config_.inputs_max : config_.workers_max);
  }
  if (input) {
    had_input_ = true;
  } else {
    had_worker_ = true;
    no_worker_ns_ = -1;
  }
  return &members_.add(Member{.hello = std::move(hello), .peer = peer, .heard_ns = turn.now_ns()});
}

void ChiefCore::welcome(Turn& turn, Member& member, RequestId request) {
  turn.log_of(member.peer, turn.event("hello")
                               .add("who", member.name())
                               .add("incarnation", raw(member.incarnation()))
                               .add("host", member.hello.host)
                               .add("pid", member.hello.pid)
                               .add("endpoint", member.hello.endpoint));
  turn.send(member,
            wire::Welcome{.index = member.hello.index,
                          .job = config_.job_text,
                          .base_dir = config_.job.base_dir,
                          .run_dir = config_.job.run_dir,
                          .plan_hash = config_.plan_hash,
                          .shard_bytes = config_.shard_bytes,
                          .train_files = config_.train_files,
                          .eval_files = config_.eval_files,
                          .heartbeat_ns = config_.heartbeat_ns,
                          .lease_ns = config_.lease_ns,
                          .train_shards = train_shards_.count()},
            request);
  if (ownership_.published() && !member.is_input()) turn.send(member, ownership_.view());
  if (member.is_worker() && had_input_) turn.send(member, input_list());
}

wire::InputList ChiefCore::input_list() const {
  wire::InputList list;
  for (const Member& m : members_) {
    if (m.is_input() && m.live())
      list.inputs.push_back({m.hello.index, m.incarnation(), m.hello.endpoint});
  }
  return list;
}

/// Sends the changed list of input processes to the workers. A worker that misses it gets it with
/// the answer to its next heartbeat.
void ChiefCore::tell_inputs(Turn& turn) {
  if (ending()) return;
  share_stream();
  const wire::InputList list = input_list();
  for (Member& m : members_) {
    if (m.is_worker() && m.live() && m.input_lists.allows(turn.now_ns())) turn.send(m, list);
  }
}

void ChiefCore::refuse(Turn& turn, PeerKey peer, const Error& error,
                       const wire::Envelope& envelope) {
  turn.log_of(peer, turn.event("refused").add("peer", raw(peer)).add("what", error.what));
  turn.reply(
      peer, envelope,
      wire::Refused{.code = error.code,
                    .what = error.id.empty() ? error.what : str(error.what, " (", error.id, ")"),
                    .hint = error.hint});
}

/// Returns the worker or input process that sent this heartbeat or Goodbye on a new connection, and
/// binds it to that connection. The incarnation identifies it, and its key must be the one of its
/// Hello. A ps must send Hello instead, because its cores share an incarnation. A chief that knows
/// only one of the cores could confuse their connections.
Member* ChiefCore::rebind_by_heartbeat(PeerKey peer, const wire::Body& body,
                                       const wire::PeerIdentity& identity) {
  Incarnation incarnation{};
  if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&body))
    incarnation = heartbeat->incarnation;
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&body))
    incarnation = goodbye->last.incarnation;
  if (incarnation == Incarnation{}) return nullptr;
  Member* member = members_.find_if([&](const Member& m) {
    return !m.is_ps() && m.incarnation() == incarnation && m.key == identity.key;
  });
  if (member != nullptr) {
    defended(Defence::kChiefRebound);
    members_.rebind(*member, peer);
  }
  return member;
}

void ChiefCore::on_heartbeat(Turn& turn, Member& member, wire::Heartbeat&& heartbeat) {
  // Metrics of another model are ignored.
  if (heartbeat.recent.size() <= config_.job.model.outputs.size()) {
    report_.take_metrics(heartbeat.recent, phase_ == Phase::kTraining);
  }
  heartbeat.recent = {};
  if (heartbeat.staleness.size() > kStalenessBucketsMax) heartbeat.staleness = {};
  if (member.is_ps() && ownership_.published() && config_.job.cluster.rebalance)
    moves_.take_report(ps_key(member), heartbeat);
  heartbeat.loads = {};
  wire::Failure failure = std::exchange(heartbeat.failure, {});
  member.last = std::move(heartbeat);
  if (ending()) return;
  // A ps that owns nothing cannot end the job.
  if (!failure.what.empty() && member.is_ps() && ownership_.concerns(ps_key(member))) {
    return fail(turn, Error{failure.code,
                            str(member.full_name(), ": ", failure.what),
                            {},
                            std::move(failure.hint),
                            std::move(failure.id)});
  }
  // Answers with a sign of life. For a ps, Sealed also replaces one that was lost.
  if (!member.is_ps()) {
    turn.send(member, wire::Heartbeat{.incarnation = member.incarnation()});
    if (member.is_worker() && had_input_ && member.input_lists.allows(turn.now_ns()))
      turn.send(member, input_list());
  } else if (ownership_.published()) {
    turn.send(member, wire::Sealed{DP_MUTATE("sealed-before-published") ? history_.complete()
                                                                        : history_.sealed()});
  }
}

void ChiefCore::on_goodbye(Turn& turn, Member& member, wire::Goodbye&& goodbye) {
  goodbye.last.recent = {};
  goodbye.last.loads = {};
  if (goodbye.last.staleness.size() > kStalenessBucketsMax) goodbye.last.staleness = {};
  member.last = std::move(goodbye.last);
  member.left = true;
  turn.outbox().answered(member);
  checkpoints_.outbox().answered(member);
  turn.log_of(member.peer, turn.event("goodbye").add("who", member.name()));
  if (ending()) return finish_if_alone(turn);
  if (member.is_worker()) {
    turn.notice_of(member.peer, NoticeLevel::kInfo, str(member.full_name(), " left"));
    take_back_leases(turn, member, false);
  } else if (member.is_input()) {
    turn.notice_of(member.peer, NoticeLevel::kInfo, str(member.full_name(), " left"));
    tell_inputs(turn);
  } else {
    on_ps_lost(turn, member, "it ended");
  }
}

void ChiefCore::on_peer_gone(int64_t now_ns, PeerKey peer, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  if (Member* member = members_.find(peer)) member->cut_off = true;
}

void ChiefCore::on_process_ended(int64_t now_ns, const EndedProcess& ended, Effects& effects) {
  if (finished()) return;
  Turn turn(turn_state_, now_ns, effects);
  for (Member& member : members_) {
    if (member.left || member.hello.role != ended.role || member.hello.index != ended.index ||
        member.hello.pid != ended.pid) {
      continue;
    }
    member.left = true;  // a process that takes its index does not wait
    turn.outbox().answered(member);
    turn.log(turn.event("process_ended").add("who", member.name()).add("pid", ended.pid));
    if (ending()) continue;
    if (member.is_worker()) {
      if (!std::exchange(member.silent, true)) ++workers_lost_;
      take_back_leases(turn, member, true);
    } else if (member.is_input()) {
      tell_inputs(turn);
    } else {
      on_ps_lost(turn, member, "its process ended");
    }
  }
  if (ended.stop_signal != 0) stop(turn, ended.stop_signal, str("process ", ended.pid));
  if (phase_ == Phase::kStopping) finish_if_alone(turn);
}

std::string ChiefCore::missing_ps() const {
  std::string here;
  for (const Member& m : members_) {
    if (m.is_ps() && m.live()) here += str(here.empty() ? "" : ", ", m.full_name());
  }
  return str(members_.ps_live(), " of ", config_.ps_cores_expected, " ps cores came within ",
             config_.start_timeout_ns / kSecond, " s", here.empty() ? "" : " (here: ", here,
             here.empty() ? "" : ")");
}

}  // namespace downpour::chief
