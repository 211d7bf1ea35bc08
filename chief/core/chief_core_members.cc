// ChiefCore: who joins, who leaves, who gets which partitions.
#include <algorithm>
#include <set>

#include "chief/core/chief_core.h"
#include "chief/core/placement.h"

namespace downpour::chief {

namespace {

constexpr uint32_t kIndexMax = 1U << 16;  // an index asked for above it is refused
constexpr uint32_t kThreadsMax = 1024;    // the same for a ps core's number
constexpr size_t kTextBytesMax = 1024;    // of host, build and endpoint

}  // namespace

void ChiefCore::on_hello(PeerKey peer, const wire::Hello& hello, RequestId request) {
  if (ending()) {
    return refuse(peer, Error{ErrorCode::kUnavailable, "the job has ended"}, request);
  }
  Result<Member*> admitted = admit(peer, hello);
  if (!admitted) return refuse(peer, admitted.error(), request);
  Member& member = **admitted;
  welcome(member, request);
  if (const wire::Body* waiting = outbox_.find(member)) {
    send(member, *waiting, RequestId{++last_request_});
  }
  if (phase_ == Phase::kGathering) place();
}

Result<Member*> ChiefCore::admit(PeerKey peer, wire::Hello hello) {
  if (hello.role == wire::Role::kChief || hello.incarnation == Incarnation{}) {
    return Error{ErrorCode::kMalformed, "a Hello without a role or an incarnation"};
  }
  if (hello.build != config_.build) {
    return Error{ErrorCode::kUnavailable,
                 str("this process is version ", hello.build.substr(0, kTextBytesMax),
                     ", the chief is version ", config_.build),
                 {},
                 "install the same version everywhere"};
  }
  if ((hello.index >= kIndexMax && hello.index != UINT32_MAX) || hello.thread >= kThreadsMax ||
      hello.host.size() > kTextBytesMax || hello.endpoint.size() > kTextBytesMax) {
    return Error{ErrorCode::kMalformed, "a Hello beyond the limits of index, core number or text"};
  }
  if (hello.role == wire::Role::kWorker) hello.thread = 0;
  if (Member* known =
          members_.find(hello.role, hello.incarnation, hello.thread)) {  // again: the same answer
    if (known->peer != peer) members_.rebind(*known, peer);
    known->heard_ns = now_ns_;
    known->silent = known->left = false;
    return known;
  }
  if (members_.find(peer) != nullptr) {
    return Error{ErrorCode::kMalformed, "another process said Hello on this connection"};
  }
  if (members_.size() >= config_.members_max) {
    return Error{ErrorCode::kUnavailable,
                 str("the chief has ", config_.members_max, " members already")};
  }
  return hello.role == wire::Role::kPs ? admit_ps(peer, std::move(hello))
                                       : admit_worker(peer, std::move(hello));
}

Result<Member*> ChiefCore::admit_ps(PeerKey peer, wire::Hello hello) {
  if (hello.endpoint.empty())
    return Error{ErrorCode::kMalformed, "a ps said Hello without its endpoint"};
  if (hello.index == UINT32_MAX) {  // cores of one process share an index
    const Member* sibling = members_.find_if(
        [&](const Member& m) { return m.is_ps() && m.incarnation() == hello.incarnation; });
    std::set<uint32_t> taken;
    for (const Member& m : members_) {
      if (m.is_ps() && (m.live() || owner_of(m))) taken.insert(m.hello.index);
    }
    hello.index = 0;
    if (sibling != nullptr) {
      hello.index = sibling->hello.index;
    } else {
      while (taken.contains(hello.index)) ++hello.index;
    }
  }
  Member* other = members_.find_if([&](const Member& m) {
    return m.is_ps() && m.hello.index == hello.index && m.incarnation() != hello.incarnation &&
           !m.left;
  });
  if (other != nullptr && now_ns_ - other->heard_ns <= config_.lease_ns) {
    return Error{ErrorCode::kUnavailable,
                 str("ps ", hello.index, " is taken by ", other->full_name()),
                 {},
                 "choose another --index, or leave it out"};
  }
  if (other != nullptr && owner_of(*other)) {
    fail(Error{ErrorCode::kPeersLost,
               str(other->full_name(), " was lost with its partitions: it was started anew"),
               other->hello.endpoint, "run the job again: it goes on from the newest checkpoint"});
    return Error{ErrorCode::kUnavailable, "the job has ended"};
  }
  if (Member* old = members_.find(wire::Role::kPs, hello.index, hello.thread)) replace(*old);
  if (phase_ != Phase::kGathering) {
    notice(NoticeLevel::kInfo,
           str("ps ", hello.index, " came after the partitions were placed: it stays idle"));
  }
  return &members_.add(Member{.hello = std::move(hello), .peer = peer, .heard_ns = now_ns_});
}

Result<Member*> ChiefCore::admit_worker(PeerKey peer, wire::Hello hello) {
  const auto silence_ns = [&](const Member& m) { return now_ns_ - m.heard_ns; };
  if (hello.index == UINT32_MAX) {
    // A worker that is merely paused keeps its index for a while, so that it can go on when it
    // wakes.
    const auto is_gone = [&](const Member& m) {
      return m.left || silence_ns(m) > config_.member_silence_ns;
    };
    for (hello.index = 0;; ++hello.index) {
      const Member* old = members_.find(wire::Role::kWorker, hello.index, 0);
      if (old == nullptr || is_gone(*old)) break;
    }
  }
  if (Member* old = members_.find(wire::Role::kWorker, hello.index, 0)) {
    if (!old->left && silence_ns(*old) <= config_.lease_ns) {
      return Error{ErrorCode::kUnavailable,
                   str("worker ", hello.index, " is taken by ", old->full_name()),
                   {},
                   "choose another --index, or leave it out"};
    }
    replace(*old);
  }
  had_worker_ = true;
  no_worker_ns_ = -1;
  return &members_.add(Member{.hello = std::move(hello), .peer = peer, .heard_ns = now_ns_});
}

void ChiefCore::welcome(Member& member, RequestId request) {
  log(event("hello")
          .add("who", member.name())
          .add("incarnation", raw(member.incarnation()))
          .add("host", member.hello.host)
          .add("pid", member.hello.pid)
          .add("endpoint", member.hello.endpoint));
  send(member,
       wire::Welcome{.index = member.hello.index,
                     .job = config_.job_text,
                     .base_dir = config_.job.base_dir,
                     .run_dir = config_.job.run_dir,
                     .plan_hash = config_.plan_hash,
                     .shard_bytes = config_.shard_bytes,
                     .train_files = config_.train_files,
                     .eval_files = config_.eval_files,
                     .heartbeat_ns = config_.heartbeat_ns,
                     .lease_ns = config_.lease_ns},
       request);
  if (published_) send(member, view_);
}

void ChiefCore::refuse(PeerKey peer, const Error& error, RequestId request) {
  log(event("refused").add("what", error.what));
  send(peer, wire::Refused{.code = error.code, .what = error.what, .hint = error.hint}, request);
}

/// A known process on a new connection (its transport reconnected); its heartbeat tells who it is.
Member* ChiefCore::rebind_by_heartbeat(PeerKey peer, const wire::Body& body) {
  Incarnation incarnation{};
  if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&body))
    incarnation = heartbeat->incarnation;
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&body))
    incarnation = goodbye->last.incarnation;
  const auto same = [&](const Member& m) { return m.incarnation() == incarnation; };
  if (incarnation == Incarnation{} || members_.count(same) != 1)
    return nullptr;  // of several cores: say Hello
  Member* member = members_.find_if(same);
  members_.rebind(*member, peer);
  return member;
}

void ChiefCore::on_goodbye(Member& member, wire::Goodbye&& goodbye) {
  goodbye.last.recent.clear();
  member.last = std::move(goodbye.last);
  member.left = true;
  outbox_.answered(member);
  log(event("goodbye").add("who", member.name()));
  if (ending()) {
    const bool waiting = members_.count([](const Member& m) { return m.live(); }) > 0;
    if (!waiting && !finished()) finish();
    return;
  }
  if (member.is_worker()) {
    notice(NoticeLevel::kInfo, str(member.full_name(), " left"));
    take_back_leases(member, false);
  } else if (owner_of(member)) {
    fail(Error{ErrorCode::kPeersLost, str(member.full_name(), " left with its partitions"),
               member.hello.endpoint, "run the job again: it goes on from the newest checkpoint"});
  }
}

// ---- placing
// --------------------------------------------------------------------------------------------------

std::optional<uint32_t> ChiefCore::owner_of(const Member& member) const {
  const auto it = std::find(owners_.begin(), owners_.end(),
                            std::pair(member.incarnation(), member.hello.thread));
  if (it == owners_.end() || !member.is_ps()) return std::nullopt;
  return uint32_t(it - owners_.begin());
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

void ChiefCore::place() {
  std::vector<const Member*> cores;
  for (const Member& m : members_) {
    if (m.is_ps() && m.live()) cores.push_back(&m);
  }
  if (cores.size() < config_.ps_cores_expected || stop_signal_ != 0) return;
  std::sort(cores.begin(), cores.end(), [](const Member* a, const Member* b) {
    return std::pair(a->hello.index, a->hello.thread) < std::pair(b->hello.index, b->hello.thread);
  });
  std::vector<wire::Owner> owners;
  for (const Member* m : cores) {
    owners.push_back({m->hello.index, m->hello.thread, m->incarnation(), m->hello.endpoint});
    owners_.emplace_back(m->incarnation(), m->hello.thread);
  }
  view_ = make_view({config_.term, 1}, std::move(owners), config_.partition_bits);
  adopted_.assign(owners_.size(), false);
  const ResumeState none;
  const ResumeState& from = config_.resume ? *config_.resume : none;
  auto adopts = make_adopts(view_, from.sealed_epochs, from.folder, from.images);
  if (!adopts) return fail(std::move(adopts).error());
  enter(Phase::kAdopting);
  for_each_owner(
      [&](uint32_t owner, const Member& member) { ask(member, std::move((*adopts)[owner])); });
}

void ChiefCore::on_adopted(Member& member, const wire::Adopted& adopted) {
  const auto owner = owner_of(member);
  if (phase_ != Phase::kAdopting || !owner || adopted.since != view_.id || adopted_[*owner]) return;
  if (!adopted.ok) {
    return fail(
        Error{ErrorCode::kBadData,
              str(member.full_name(), " could not take up its partitions: ", adopted.error),
              config_.resume ? config_.resume->folder : std::string(),
              config_.resume ? "an older checkpoint may be whole; --fresh starts anew" : ""});
  }
  adopted_[*owner] = true;
  outbox_.answered(member);
  if (std::all_of(adopted_.begin(), adopted_.end(), [](bool done) { return done; })) publish_view();
}

void ChiefCore::publish_view() {
  published_ = true;
  log(event("view")
          .add("term", view_.id.term)
          .add("n", view_.id.n)
          .add("ps_cores", owners_.size())
          .add("partitions", view_.partitions.size()));
  for (const Member& member : members_) {
    if (!member.left) send(member, view_);
  }
  begin_work();
}

}  // namespace downpour::chief
