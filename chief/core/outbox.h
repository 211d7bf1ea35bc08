// Outbox: requests to ps cores, and Stop to any member, repeated until they are answered. At most
// one request per member is pending.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "chief/core/membership.h"
#include "shared/wire/messages.h"

namespace downpour::chief {

class Outbox {
 public:
  struct Request {
    wire::Body body;
    Bytes values;  // travel with the body
    int64_t next_ns = 0;
    int64_t wait_ns = 0;
  };

  explicit Outbox(int64_t resend_ns) : resend_ns_(resend_ns) {}

  /// Adds a request to `to`. It replaces a pending request to the same member.
  void put(int64_t now_ns, const Member& to, wire::Body body, Bytes values = {}) {
    waiting_[key_of(to)] = {std::move(body), std::move(values), now_ns + resend_ns_, resend_ns_};
  }
  void answered(const Member& by) { waiting_.erase(key_of(by)); }
  void clear() { waiting_.clear(); }
  /// Drops all requests of one kind.
  template <typename Body>
  void drop() {
    std::erase_if(waiting_, [](const auto& entry) {
      return std::holds_alternative<Body>(entry.second.body);
    });
  }
  /// Returns true if a request of this kind is pending.
  template <typename Body>
  bool waits() const {
    return std::any_of(waiting_.begin(), waiting_.end(), [](const auto& entry) {
      return std::holds_alternative<Body>(entry.second.body);
    });
  }
  bool empty() const { return waiting_.empty(); }
  bool waits_for(const Member& to) const { return waiting_.contains(key_of(to)); }
  /// Returns true if a request of this kind to `to` is pending.
  template <typename Body>
  bool waits_for(const Member& to) const {
    const Request* request = find(to);
    return request != nullptr && std::holds_alternative<Body>(request->body);
  }

  /// Calls send(role, incarnation, thread, request) for every request that is due. The waits
  /// double, up to eight times the first one.
  template <typename SendAgain>
  void tick(int64_t now_ns, SendAgain&& send) {
    for (auto& [to, request] : waiting_) {
      if (now_ns < request.next_ns) continue;
      request.wait_ns = std::min(2 * request.wait_ns, 8 * resend_ns_);
      request.next_ns = now_ns + request.wait_ns;
      std::apply([&](auto... who) { send(who..., request); }, to);
    }
  }
  /// Returns the pending request to this member; null if there is none. It is repeated at once when
  /// the member sends Hello again.
  const Request* find(const Member& to) const {
    const auto it = waiting_.find(key_of(to));
    return it == waiting_.end() ? nullptr : &it->second;
  }

 private:
  using Key =
      std::tuple<wire::Role, Incarnation, uint32_t>;  // stays the same when the connection changes
  static Key key_of(const Member& m) { return {m.hello.role, m.incarnation(), m.hello.thread}; }
  int64_t resend_ns_;
  std::map<Key, Request> waiting_;
};

}  // namespace downpour::chief
