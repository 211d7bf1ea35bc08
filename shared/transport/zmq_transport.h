// ZmqTransport: the implementation of Transport over ZeroMQ. Only this module's files zmq_* use
// ZeroMQ. A bound port has a ROUTER socket. Each connected port has its own DEALER socket, unless
// its other end is a port of this instance.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <zmq.hpp>

#include "shared/transport/address.h"
#include "shared/transport/credit.h"
#include "shared/transport/shared_memory.h"
#include "shared/transport/tcp_gate.h"
#include "shared/transport/throttle.h"
#include "shared/transport/transport.h"
#include "shared/transport/zmq_curve.h"
#include "shared/wire/codec.h"

namespace downpour::transport {

constexpr size_t kPayloadsMax = 2;
constexpr uint64_t kHeaderBytesNominal = 256;  // nominal size for a message that is not encoded

inline uint64_t bytes_of(const wire::Message& message) {
  return kHeaderBytesNominal + message.keys.size() + message.values.size();
}

/// A message between threads, sent as a pointer. ZeroMQ destroys it with the frame, whether or not
/// it was received.
struct Handover {
  wire::Message message;
  std::shared_ptr<Credit> credit;
  uint64_t bytes = 0;
  ~Handover() { credit->release(bytes); }

  /// The sender calls give() after writing, and the other thread calls take() before reading.
  /// ZeroMQ orders the two; these calls only inform thread checkers, which cannot see inside it.
  void give() const;
  void take() const;
};

struct Port {
  PortId id{};
  Scheme scheme{};
  bool bound = false;
  bool open = true;
  bool ready = false;      // is in ready_
  bool wants_out = false;  // the outbox of its peer is not empty
  std::string given;       // endpoint as passed by the caller
  std::string endpoint;    // with wildcards resolved
  zmq::socket_t socket;    // none if both ends are ports of this instance
  PeerId peer{};           // connected ports only
  std::unordered_map<uint32_t, PeerId> peer_of_route;  // bound ports only: by routing id
  std::shared_ptr<GateListener> gate;                  // ports bound to tcp only
};

/// Memory shared with a peer on this machine. Each direction has an arena, which belongs to its
/// sender.
struct Sharing {
  enum class State : uint8_t { kNone, kOffered, kOpen, kRefused };
  State state = State::kNone;
  std::unique_ptr<SharedArena> arena;  // own arena, since the offer
  uint32_t pid = 0;                    // of the process that has opened it
  std::unique_ptr<SharedView> view;    // the peer's arena
};

struct Peer {
  std::shared_ptr<Port> port;
  std::shared_ptr<Credit> credit;
  uint32_t route = 0;    // at a bound port: its routing id in ROUTER
  PeerId other{};        // the other end, if both ends belong to this instance
  bool dropped = false;  // sent too many malformed messages, or its key is not allowed
  PeerIdentity identity;
  uint32_t malformed = 0;
  uint64_t heard = 0;  // received_messages of the transport when the peer's last message arrived
  std::deque<wire::Message>
      outbox;  // connected peers: messages that the socket does not accept yet
  uint64_t outbox_bytes = 0;
  Sharing sharing;                             // ipc only
  std::shared_ptr<GateConnection> connection;  // at a bound tcp port, after its first message
};

class ZmqTransport final : public Transport {
 public:
  explicit ZmqTransport(const ZmqOptions& options);
  ~ZmqTransport() override;

  Result<PortId> bind(const std::string& text) override;
  Result<PeerId> connect(const std::string& text) override;
  std::string endpoint(PortId port) const override;
  PortId port_of(PeerId peer) const override;
  const PeerIdentity& identity(PeerId peer) const override;
  SendStatus send(PeerId peer, wire::Message&& message) override;
  void close(PeerId peer) override;
  void close(PortId port) override;
  size_t poll(int64_t timeout_ns, size_t messages_max, const Receiver& receiver) override;
  void wake() override { waker_->wake(); }
  TransportStats stats() const override { return stats_; }
  void shutdown(int64_t linger_ns) override;

 private:
  enum class Sent : uint8_t { kYes, kAgain, kGone, kTooLarge };
  struct LoopItem {
    PeerId from{};  // as the receiving port knows it
    wire::Message message;
    std::shared_ptr<Credit> credit;
  };

  zmq::socket_t make_socket(const Address& address, bool bound);
  Result<zmq::socket_t> make_connecting_socket(const Address& address, const KeyedEndpoint& to);
  /// Returns true if connections of this port prove keys.
  bool has_keys(const Port& port) const;
  void identify(Peer& peer, const std::string& key);
  void drop_revoked();
  uint64_t frame_bytes_max() const;
  uint64_t receive_messages_max() const;
  Result<std::shared_ptr<GateListener>> listen(const std::string& text, const Address& address,
                                               zmq::socket_t& socket);
  std::shared_ptr<Port> add_port(const Address& address, const std::string& text, bool bound);
  PeerId add_peer(const std::shared_ptr<Port>& port);
  PeerId connect_loop(const std::shared_ptr<Port>& bound, const std::string& text);
  PeerId peer_by_route(const std::shared_ptr<Port>& port, uint32_t route);
  void forget_oldest(Port& port);
  void close_socket(Port& port, int linger_ms);
  void close_all(int linger_ms);

  Sent transmit(Peer& peer, wire::Message& message);
  Sent transmit_pointer(Peer& peer, wire::Message& message);
  bool send_frame(Port& port, zmq::message_t& frame, bool more);
  Sent drop_unsendable(const Peer& peer, Error error);
  bool send_route(Peer& peer);
  std::optional<SharedNote> share(Peer& peer, const Bytes& values);
  bool send_note(Peer& peer, const SharedNote& note);
  void on_note(Peer& peer, const SharedNote& note);
  void drop_orphans();
  void flush(Peer& peer);
  bool has_unsent() const;

  bool scan(int64_t timeout_ns);
  size_t deliver(size_t messages_max, const Receiver& receiver);
  size_t deliver_loop(size_t messages_max, const Receiver& receiver);
  /// Returns true if something had arrived. Increments `delivered` if it was a message.
  bool receive(const std::shared_ptr<Port>& port, const Receiver& receiver, size_t& delivered);
  void accept(const std::shared_ptr<Port>& port, PeerId from, wire::Message&& message,
              const Receiver& receiver, size_t& delivered);
  void refuse(const std::shared_ptr<Port>& port, PeerId from, Error error, RequestId request,
              const Receiver& receiver);

  void account(Peer* peer, zmq::message_t& header, uint64_t cost_bytes);
  void report(PortId port, PeerId from, Error error, const Receiver& receiver);
  void report_losses(const Receiver& receiver);
  void report_unsendable(const Receiver& receiver);

  ZmqOptions options_;
  std::shared_ptr<SharedContext> context_;
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  wire::Codec codec_;
  TransportStats stats_;
  uint64_t list_version_ =
      0;  // version of the list of allowed keys when the peers were last checked against it
  uint32_t last_port_ = 0;
  uint64_t last_peer_ = 0;
  std::map<PortId, std::shared_ptr<Port>> ports_;
  std::unordered_map<PeerId, Peer> peers_;
  std::deque<LoopItem> loop_;
  std::deque<std::shared_ptr<Port>> ready_;
  std::vector<zmq_pollitem_t> items_;              // [0] is the waker
  std::vector<std::shared_ptr<Port>> item_ports_;  // of items_[1 + i]
  std::vector<std::shared_ptr<Port>> gated_;       // bound to tcp
  Throttle reports_{{.burst = 20, .per_second = 2}};
  Throttle rejects_{{.burst = 100, .per_second = 50}};
  int64_t now_ns_ = 0;  // start of the current poll
  struct Unsendable {
    PortId port{};
    Error error;
  };
  std::deque<Unsendable> unsendable_;  // reported by the next poll
  bool items_stale_ = true;
  bool polling_ = false;
  int polls_since_scan_ = 0;
};

}  // namespace downpour::transport
