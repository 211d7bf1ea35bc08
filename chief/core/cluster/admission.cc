#include "chief/core/cluster/admission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "chief/core/cluster/ps_cores.h"
#include "shared/base/defence.h"

namespace downpour::chief {

wire::Welcome common_welcome(const ChiefConfig& config) {
  return {.job = config.job_text,
          .base_dir = config.job.base_dir,
          .run_dir = config.job.run_dir,
          .plan_hash = config.plan_hash,
          .shard_bytes = config.shard_bytes,
          .train_files = config.train_files,
          .eval_files = config.eval_files,
          .heartbeat_ns = config.heartbeat_ns,
          .lease_ns = config.lease_ns,
          .saves = config.mode == wire::Purpose::kTrain};
}

namespace {

constexpr uint32_t kIndexMax = 1U << 16;  // a requested index must be lower
constexpr uint32_t kThreadsMax = 1024;    // a ps core's number must be lower
constexpr size_t kHostBytesMax = 255;     // limit for a host name
// "tcp://", a name of 253 bytes, a port and "?key=" with 64 digits need 334 bytes.
constexpr size_t kEndpointBytesMax = 360;

Error index_taken(const char* role, const Member& by) {
  return {ErrorCode::kUnavailable,
          str(role, " ", by.hello.index, " is already in use by ", by.full_name()),
          {},
          "choose another --index, or omit the flag"};
}

Error no_room(const char* members, uint32_t most) {
  return {ErrorCode::kUnavailable,
          str("the chief already has ", most, " ", members, ", which is the maximum")};
}

}  // namespace

bool Admission::turns_away(Turn& turn, PeerKey peer, const wire::Message& message) {
  const wire::Envelope& envelope = message.envelope;
  const bool hello = std::holds_alternative<wire::Hello>(message.body);
  if (envelope.run != config_.run && (envelope.run != 0 || !hello)) {
    defended(Defence::kChiefOtherRun);
    const Error error{
        ErrorCode::kUnavailable,
        "this chief runs another job",
        {},
        "stop this process, or start it with --chief and the address of its own chief"};
    if (hello) {
      refuse(turn, peer, error, envelope);
    } else {
      turn.reply(peer, envelope, wire::Reject{error.code, error.what});
    }
    return true;
  }
  // Any process can claim a term. Only the run folder proves that a newer chief exists; the shell
  // watches it (on_newer_term).
  if (envelope.view.term <= config_.term) return false;
  defended(Defence::kChiefNewerTermClaimed);
  turn.log_of(peer, turn.event("newer_term_claimed").add("term", envelope.view.term));
  return true;
}

// ---- joining

/// Returns the reason to refuse a Hello, whatever the members are; none if there is no such reason.
std::optional<Error> Admission::fault_of(const wire::Hello& hello,
                                         const wire::PeerIdentity& identity) const {
  if (!identity.may_be(hello.role)) return wire::wrong_role(identity, hello.role);
  if (hello.role == wire::Role::kChief || hello.incarnation == Incarnation{}) {
    return Error{ErrorCode::kMalformed, "a Hello without a role or an incarnation"};
  }
  if (hello.build != config_.build) {
    return Error{ErrorCode::kUnavailable,
                 str("this process has version ", hello.build.substr(0, kHostBytesMax),
                     ", but the chief has version ", config_.build),
                 {},
                 "install the same version everywhere"};
  }
  if ((hello.index >= kIndexMax && hello.index != UINT32_MAX) || hello.thread >= kThreadsMax ||
      hello.host.size() > kHostBytesMax || hello.endpoint.size() > kEndpointBytesMax ||
      hello.claims.size() > ownership_.partition_count()) {
    return Error{ErrorCode::kMalformed,
                 str("a Hello exceeds the limits: index ", hello.index, " (at most ", kIndexMax - 1,
                     "), core ", hello.thread, " (", kThreadsMax - 1, "), host name of ",
                     hello.host.size(), " bytes (", kHostBytesMax, "), endpoint of ",
                     hello.endpoint.size(), " bytes (", kEndpointBytesMax, "), ",
                     hello.claims.size(), " claims (", ownership_.partition_count(), ")")};
  }
  if (hello.role == wire::Role::kInput && hello.endpoint.empty()) {
    return Error{ErrorCode::kMalformed, "the Hello of an input process has no endpoint"};
  }
  return std::nullopt;
}

Result<Admission::Verdict> Admission::examine(Turn& turn, PeerKey peer, wire::Hello& hello,
                                              const wire::PeerIdentity& identity,
                                              const Scope& scope) {
  if (auto fault = fault_of(hello, identity)) return std::move(*fault);
  if (hello.role != wire::Role::kPs) hello.thread = 0;
  if (!scope.gathering) hello.claims = {};  // every partition has an owner already
  // A repeated Hello gets the same answer.
  if (Member* known = members_.find(hello.role, hello.incarnation, hello.thread)) {
    // An incarnation is not secret, because workers read those of the ps in the view.
    if (known->key != identity.key) {
      return Error{
          ErrorCode::kPermission,
          str(known->full_name(), " joined with a different key than `", identity.name, "`"),
          {},
          "restart this process with its own key"};
    }
    if (known->peer != peer) members_.rebind(*known, peer);
    known->heard_ns = turn.now_ns();
    known->cut_off = false;
    known->hello.claims = std::move(hello.claims);
    const bool was_away = known->silent || known->left;
    defended(Defence::kChiefHelloAgain);
    known->silent = known->left = false;
    return Verdict{.known = known, .returned = was_away};
  }
  if (members_.find(peer) != nullptr) {
    return Error{ErrorCode::kMalformed, "another process already sent Hello on this connection"};
  }
  return hello.role == wire::Role::kPs ? examine_ps(turn, hello, scope)
                                       : examine_worker(turn, hello, scope);
}

Result<Member*> Admission::room_for(wire::Role role) {
  const uint32_t most = role == wire::Role::kPs      ? config_.ps_cores_max
                        : role == wire::Role::kInput ? config_.inputs_max
                                                     : config_.workers_max;
  if (members_.count([&](const Member& m) { return m.hello.role == role; }) < most) return nullptr;
  Member* oldest = nullptr;
  for (Member& m : members_) {
    const bool holds = m.is_ps() && ownership_.concerns(ps_key(m));
    if (m.hello.role != role || m.live() || holds) continue;
    if (oldest == nullptr || m.heard_ns < oldest->heard_ns) oldest = &m;
  }
  if (oldest != nullptr) return oldest;
  return no_room(role == wire::Role::kPs      ? "ps cores"
                 : role == wire::Role::kInput ? "input processes"
                                              : "workers",
                 most);
}

Member& Admission::add(const Turn& turn, PeerKey peer, wire::Hello hello) {
  if (hello.role == wire::Role::kInput) {
    had_input_ = true;
  } else if (hello.role == wire::Role::kWorker) {
    had_worker_ = true;
    no_worker_ns_ = -1;
  }
  return members_.add(Member{.hello = std::move(hello), .peer = peer, .heard_ns = turn.now_ns()});
}

/// Decides between a member and another process that asks for the member's index. The newer process
/// takes the index at once if the member has left, its connection is broken, or it has been silent
/// for the lease time. Otherwise the member gets a message. If the member then stays silent for
/// four heartbeat intervals, the newer process takes the index. If the member sends a message later
/// than one interval after the request, the newer process is refused.
/// A wrong decision does no harm to the partitions, because each transfer has its own ownership
/// generation.
Admission::IndexConflict Admission::index_conflict(Turn& turn, Member& old,
                                                   const wire::Hello& hello, const Scope& scope) {
  if (old.left || old.cut_off || turn.now_ns() - old.heard_ns > config_.lease_ns) {
    defended(Defence::kChiefIndexConflictReplaced);
    return IndexConflict::kReplaced;
  }
  if (old.contender != hello.incarnation) {
    // Only sending shows whether the connection is intact. The member gets these messages anyway.
    if (old.is_ps()) {
      turn.send(old, wire::Sealed{scope.sealed_epochs});
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

Result<Admission::Verdict> Admission::examine_ps(Turn& turn, wire::Hello& hello,
                                                 const Scope& scope) {
  if (hello.endpoint.empty())
    return Error{ErrorCode::kMalformed, "the Hello of a ps has no endpoint"};
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
    const IndexConflict result = index_conflict(turn, *other, hello, scope);
    if (result == IndexConflict::kWait) return Verdict{.waits = true};
    if (result == IndexConflict::kRefused) return index_taken("ps", *other);
  }
  return Verdict{.displaced = std::move(others)};
}

/// Decides about a worker or an input process. Each role has its own indices.
Result<Admission::Verdict> Admission::examine_worker(Turn& turn, wire::Hello& hello,
                                                     const Scope& scope) {
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
    const IndexConflict result = index_conflict(turn, *old, hello, scope);
    if (result == IndexConflict::kWait) return Verdict{.waits = true};
    if (result == IndexConflict::kRefused) return index_taken(old->role_name(), *old);
    return Verdict{.displaced = {old}};
  }
  return Verdict{};
}

void Admission::welcome(Turn& turn, Member& member, RequestId request, uint32_t train_shards) {
  turn.log_of(member.peer, turn.event("hello")
                               .add("who", member.name())
                               .add("incarnation", raw(member.incarnation()))
                               .add("host", member.hello.host)
                               .add("pid", member.hello.pid)
                               .add("endpoint", member.hello.endpoint));
  wire::Welcome welcome = common_welcome(config_);
  welcome.index = member.hello.index;
  welcome.train_shards = train_shards;
  turn.send(member, std::move(welcome), request);
  if (ownership_.published() && !member.is_input()) turn.send(member, ownership_.view());
  if (member.is_worker() && had_input_) turn.send(member, input_list());
}

wire::InputList Admission::input_list() const {
  wire::InputList list;
  for (const Member& m : members_) {
    if (m.is_input() && m.live())
      list.inputs.push_back({m.hello.index, m.incarnation(), m.hello.endpoint});
  }
  return list;
}

void Admission::send_inputs(Turn& turn) {
  const wire::InputList list = input_list();
  for (Member& m : members_) {
    if (m.is_worker() && m.live() && m.input_lists.allows(turn.now_ns())) turn.send(m, list);
  }
}

void Admission::answer_heartbeat(Turn& turn, Member& member, uint32_t sealed_epochs) {
  if (member.is_ps()) {
    if (ownership_.published()) turn.send(member, wire::Sealed{sealed_epochs});
    return;
  }
  turn.send(member, wire::Heartbeat{.incarnation = member.incarnation()});
  if (member.is_worker() && had_input_ && member.input_lists.allows(turn.now_ns()))
    turn.send(member, input_list());
}

void Admission::refuse(Turn& turn, PeerKey peer, const Error& error,
                       const wire::Envelope& envelope) {
  turn.log_of(peer, turn.event("refused").add("peer", raw(peer)).add("what", error.what));
  turn.reply(
      peer, envelope,
      wire::Refused{.code = error.code,
                    .what = error.id.empty() ? error.what : str(error.what, " (", error.id, ")"),
                    .hint = error.hint});
}

Member* Admission::rebind(PeerKey peer, const wire::Body& body,
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

// ---- silence

bool Admission::falls_silent(const Turn& turn, Member& member) const {
  if (member.left || member.silent) return false;
  int64_t limit_ns = config_.lease_ns;
  if (member.is_ps()) {
    // A core that loads its partitions may be silent for longer.
    limit_ns = ownership_.adopting(ps_key(member))
                   ? std::max(config_.member_silence_ns, config_.lease_stall_ns)
                   : config_.member_silence_ns;
  }
  if (turn.now_ns() - member.heard_ns <= limit_ns) return false;
  return member.silent = true;
}

void Admission::report_silence(Turn& turn, const Member& member) const {
  if (member.is_worker()) defended(Defence::kChiefLeaseExpired);
  turn.log_of(
      member.peer,
      turn.event("silent").add("who", member.name()).add("incarnation", raw(member.incarnation())));
  if (member.is_ps()) return;  // its loss is reported
  const char* consequence = member.is_input()
                                ? " does not answer: other processes read its shards"
                                : " does not answer: its shards are leased to other workers";
  turn.notice_of(member.peer, NoticeLevel::kWarning, str(member.full_name(), consequence));
}

void Admission::report_return(Turn& turn, const Member& member) {
  defended(Defence::kChiefMemberBack);
  if (member.is_worker()) no_worker_ns_ = -1;
  turn.log_of(member.peer, turn.event("back").add("who", member.name()));
  turn.notice_of(member.peer, NoticeLevel::kInfo, str(member.full_name(), " answers again"));
}

std::optional<Error> Admission::check_workers(Turn& turn, bool needs_workers) {
  if (members_.workers_live() > 0) {
    no_worker_ns_ = -1;
    return std::nullopt;
  }
  if (no_worker_ns_ < 0) {
    no_worker_ns_ = had_worker_ ? turn.now_ns() : turn.start_ns();
    if (had_worker_)
      turn.notice(NoticeLevel::kWarning, "no worker is left; the job waits for a worker");
  }
  if (!needs_workers) return std::nullopt;
  const int64_t wait_ns = had_worker_ ? config_.workers_wait_ns : config_.start_timeout_ns;
  if (turn.now_ns() - no_worker_ns_ <= wait_ns) return std::nullopt;
  return had_worker_ ? Error{ErrorCode::kPeersLost,
                             str("no worker was left, and no worker joined within ",
                                 wait_ns / kSecond, " s"),
                             {},
                             "run the job again: it resumes from the newest checkpoint"}
                     : Error{ErrorCode::kUnavailable,
                             str("no worker joined within ", wait_ns / kSecond, " s (",
                                 config_.workers_expected, " expected)"),
                             {},
                             "start workers with --chief and the address of the chief"};
}

int Admission::signal_of_departed_workers() const {
  for (const Member& m : members_) {
    if (m.is_worker() && m.left && m.stop_signal != 0) return m.stop_signal;
  }
  return 0;
}

}  // namespace downpour::chief
