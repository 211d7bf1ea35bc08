// Membership: who is here. One Member per ps core, worker and input process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>

#include "chief/core/events.h"

namespace downpour::chief {

constexpr size_t kStalenessBucketsMax = 256;  // a histogram with more does not count

/// How often one member gets an answer that may be large: 16 at once, then four a second. A member
/// that asks more often gets the next answer.
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

/// A ps core, a worker or an input process that was welcomed. Its last heartbeat outlives it, for
/// the summary.
struct Member {
  wire::Hello hello;  // `index` is the one given
  PeerKey peer{};
  int64_t heard_ns = 0;
  bool silent =
      false;          // for so long that it counts as lost (a worker's leases do), until it speaks
  bool left = false;  // said Goodbye
  wire::Heartbeat last;
  RequestId granted{};  // worker: the request that `grant` answered
  wire::LeaseGrant grant;
  std::string key;       // public key that its connection proved; empty: none
  bool cut_off = false;  // its connection is broken, and it has not spoken through another since
  int stop_signal = 0;   // that it received and reported; 0: none
  bool leaving = false;  // ps: asked to hold nothing any more
  // ps: partitions go where they are answered. A core that joins a running job first answers an
  // Adopt of nothing, then gets one partition; each move that it fails keeps the next one away for
  // twice as long.
  bool answers = false;   // an Adopt of this chief
  bool received = false;  // a partition, and said so
  uint32_t move_failures = 0;
  int64_t move_at_ns = 0;  // nothing is moved to it before
  uint32_t probes = 0;     // sent
  int64_t probe_at_ns = 0;
  Incarnation contender{};  // asks for this member's index, since then
  int64_t contended_ns = 0;
  AnswerPace welcomes, views, input_lists;

  bool is_worker() const { return hello.role == wire::Role::kWorker; }
  bool is_ps() const { return hello.role == wire::Role::kPs; }
  bool is_input() const { return hello.role == wire::Role::kInput; }
  /// As it stands in messages to people.
  const char* role_name() const { return is_ps() ? "ps" : is_input() ? "input" : "worker"; }
  Incarnation incarnation() const { return hello.incarnation; }
  bool live() const { return !silent && !left; }
  /// "worker 1", "input 0", "ps 0" or "ps 0 core 2".
  std::string name() const {
    if (!is_ps()) return str(role_name(), " ", hello.index);
    return hello.thread == 0 ? str("ps ", hello.index)
                             : str("ps ", hello.index, " core ", hello.thread);
  }
  /// The name with its process, for messages to people.
  std::string full_name() const { return str(name(), " (", hello.host, ", pid ", hello.pid, ")"); }
};

/// All members, in order of joining. References stay valid until remove().
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
  /// The member speaks through another connection from now on.
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
