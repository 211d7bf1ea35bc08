// Connections: the connections of a worker to the chief and to the ps cores of the newest view.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "shared/base/result.h"
#include "shared/base/units.h"
#include "shared/transport/transport.h"
#include "shared/wire/member_messages.h"

namespace downpour::worker {

/// Used by the thread of the transport.
class Connections {
 public:
  /// Keeps the reference. `chief`: its endpoint. `own_ps`: the ps in this process, {} if there is
  /// none. `say` writes a line to the log; may be empty.
  Connections(transport::Transport& transport, std::string chief, Incarnation own_ps,
              std::function<void(const std::string& line)> say)
      : transport_(transport), chief_(std::move(chief)), own_ps_(own_ps), say_(std::move(say)) {}

  Result<void> connect_chief();
  /// Connects to the owners of a view, and closes the connections to those that own nothing any
  /// more.
  void connect_owners(const wire::View& view);
  /// Returns whether the sender of a message may choose this endpoint. Reports an endpoint that it
  /// may not choose.
  bool may_connect(const std::string& endpoint);

  /// Notes that a request went to the peer, or that a message came from it.
  void on_sent(int64_t now_ns, Incarnation address);
  void on_received(Incarnation address);
  /// Reports each owner that has been asked and has not answered anything for `kSilentNs`: no other
  /// process notices that it can't be reached from this machine.
  void report_silent(int64_t now_ns);
  static constexpr int64_t kSilentNs = 15 * kSecond;

  bool owns(transport::PortId port) const { return ports_.contains(raw(port)); }
  /// Returns the connection to the chief, which has incarnation 0, or to the owner with this
  /// address_of(); null: none.
  const transport::PeerId* find_peer(Incarnation address) const;
  /// Returns the address of a peer; null: it is not connected (any more).
  const Incarnation* find_address(transport::PeerId peer) const;

 private:
  struct Link {
    transport::PeerId peer{};
    std::string owner;      // for messages; empty: the chief
    int64_t asked_ns = -1;  // when the first request was sent
    bool has_answered = false;
    bool reported = false;
  };
  void add(Incarnation address, Link link);
  std::string endpoint_of(const wire::Owner& owner) const;

  transport::Transport& transport_;
  std::string chief_;
  Incarnation own_ps_;
  std::function<void(const std::string& line)> say_;
  std::unordered_map<uint64_t, Link> links_;                // by address
  std::unordered_map<uint64_t, Incarnation> incarnations_;  // by peer
  std::unordered_set<uint32_t> ports_;
  std::string refused_endpoint_;  // the last one reported
};

}  // namespace downpour::worker
