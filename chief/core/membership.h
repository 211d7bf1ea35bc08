// Membership: the processes that have joined the job. One Member per ps core, worker and input
// process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "chief/core/events.h"

namespace downpour::chief {

constexpr size_t kStalenessBucketsMax = 256;  // a larger histogram is ignored

/// Limits how often one member gets an answer that may be large: 16 at once, then four per second.
/// Requests beyond that get no answer.
class AnswerPace {
 public:
  bool allows(int64_t now_ns) {
    constexpr int64_t kEachNs = kSecond / 4, kBurst = 16;
    const int64_t paid_ns = std::max(paid_ns_, now_ns) + kEachNs;
    if (paid_ns - now_ns > kBurst * kEachNs) return false;
    paid_ns_ = paid_ns;
    return true;
  }

 private:
  int64_t paid_ns_ = 0;
};

/// A ps core, worker or input process that was welcomed. Its last heartbeat is kept for the summary
/// after it is gone.
struct Member {
  wire::Hello hello;  // `index` is the assigned index
  PeerKey peer{};
  int64_t heard_ns = 0;
  bool silent =
      false;  // long enough to count as lost (a worker loses its leases); reset by its next message
  bool left = false;  // has sent Goodbye, or its launcher reported its end
  wire::Heartbeat last;
  std::string key;  // public key proved by its connection; empty: none
  bool cut_off =
      false;  // its connection is broken, and no message has come through another one since
  int stop_signal = 0;      // stop signal that it has reported; 0: none
  bool leaving = false;     // ps: its partitions are to move away
  bool answers = false;     // ps: has answered an Adopt of this chief
  bool received = false;    // ps: has taken over a partition from this chief
  Incarnation contender{};  // the process that asks for this member's index, and since when
  int64_t contended_ns = 0;
  AnswerPace welcomes, views, input_lists;

  bool is_worker() const { return hello.role == wire::Role::kWorker; }
  bool is_ps() const { return hello.role == wire::Role::kPs; }
  bool is_input() const { return hello.role == wire::Role::kInput; }
  /// Returns the role as messages to people name it.
  const char* role_name() const { return is_ps() ? "ps" : is_input() ? "input" : "worker"; }
  Incarnation incarnation() const { return hello.incarnation; }
  bool live() const { return !silent && !left; }
  /// Returns "worker 1", "input 0", "ps 0" or "ps 0 core 2".
  std::string name() const {
    if (!is_ps()) return str(role_name(), " ", hello.index);
    return hello.thread == 0 ? str("ps ", hello.index)
                             : str("ps ", hello.index, " core ", hello.thread);
  }
  /// Returns the name with host and pid, for messages to people.
  std::string full_name() const { return str(name(), " (", hello.host, ", pid ", hello.pid, ")"); }
};

/// Stores a member's heartbeat for the summary, without `recent` and `loads`, which were handled on
/// arrival, and without a histogram that is too large.
inline void keep_last(Member& member, wire::Heartbeat&& heartbeat) {
  member.last = std::move(heartbeat);
  member.last.recent = {};
  member.last.loads = {};
  if (member.last.staleness.size() > kStalenessBucketsMax) member.last.staleness = {};
}

/// All members, in the order in which they joined. References stay valid until remove().
class Membership {
 public:
  Member* find(PeerKey peer) {
    const auto it = by_peer_.find(peer);
    return it == by_peer_.end() ? nullptr : it->second;
  }
  Member* find(wire::Role role, uint32_t index, uint32_t thread) {
    return find_if([&](const Member& m) {
      return m.hello.role == role && m.hello.index == index && m.hello.thread == thread;
    });
  }
  Member* find(wire::Role role, Incarnation incarnation, uint32_t thread) {
    return find_if([&](const Member& m) {
      return m.hello.role == role && m.incarnation() == incarnation && m.hello.thread == thread;
    });
  }
  Member* find_worker(Incarnation incarnation) { return find(wire::Role::kWorker, incarnation, 0); }
  template <typename Predicate>
  Member* find_if(Predicate&& predicate) {
    const auto it = std::find_if(members_.begin(), members_.end(), predicate);
    return it == members_.end() ? nullptr : &*it;
  }

  Member& add(Member member) {
    members_.push_back(std::move(member));
    by_peer_[members_.back().peer] = &members_.back();
    return members_.back();
  }
  /// Moves the member to another connection.
  void rebind(Member& member, PeerKey peer) {
    by_peer_.erase(member.peer);
    member.peer = peer;
    by_peer_[peer] = &member;
  }
  void remove(const Member& member) {
    by_peer_.erase(member.peer);
    members_.remove_if([&](const Member& m) { return &m == &member; });
  }

  template <typename Predicate>
  uint32_t count(Predicate&& predicate) const {
    return uint32_t(std::count_if(members_.begin(), members_.end(), predicate));
  }
  /// Returns false in a job of one process, whose errors need not name their member.
  bool several_processes() const {
    return count([&](const Member& m) { return m.hello.pid != members_.front().hello.pid; }) > 0;
  }
  uint32_t workers_live() const {
    return count([](const Member& m) { return m.is_worker() && m.live(); });
  }
  uint32_t ps_live() const {
    return count([](const Member& m) { return m.is_ps() && m.live(); });
  }
  uint32_t inputs_live() const {
    return count([](const Member& m) { return m.is_input() && m.live(); });
  }
  auto begin() { return members_.begin(); }
  auto end() { return members_.end(); }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }

 private:
  std::list<Member> members_;
  std::map<PeerKey, Member*> by_peer_;
};

}  // namespace downpour::chief
