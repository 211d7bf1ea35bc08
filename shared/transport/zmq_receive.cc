#include <algorithm>
#include <climits>
#include <cstring>
#include <unistd.h>

#include "shared/base/units.h"
#include "shared/env/steady_time.h"
#include "shared/transport/zmq_transport.h"

namespace downpour::transport {
namespace {

constexpr uint32_t kMalformedMax = 16;  // a peer that sends more is dropped
constexpr size_t kBurst = 16;           // messages taken from one port before the next one
constexpr int kPollsPerScan = 4;        // polls between two scans of all ports while some are busy

/// Returns a received frame as bytes, without a copy.
Bytes take_bytes(zmq::message_t&& frame) {
  auto owner = std::make_shared<zmq::message_t>(std::move(frame));
  const void* data = owner->data();
  const size_t size = owner->size();
  return Bytes(std::move(owner), data, size);
}

}  // namespace

/// Polls all sockets and waits at most `timeout_ns`. Returns true if the caller must stop waiting:
/// wake() was called, or a signal arrived.
bool ZmqTransport::scan(int64_t timeout_ns) {
  polls_since_scan_ = 0;
  drop_revoked();
  if (items_stale_) {
    items_.assign(1, {nullptr, waker_->fd(), ZMQ_POLLIN, 0});
    item_ports_.clear();
    for (const auto& [id, port] : ports_) {
      if (port->socket.handle() == nullptr) continue;
      items_.push_back({port->socket.handle(), 0, ZMQ_POLLIN, 0});
      item_ports_.push_back(port);
    }
    items_stale_ = false;
  }
  for (size_t i = 0; i < item_ports_.size(); ++i) {
    items_[1 + i].events = short(ZMQ_POLLIN | (item_ports_[i]->wants_out ? ZMQ_POLLOUT : 0));
  }
  // Round up to whole milliseconds, the unit of the system call. Otherwise a fraction of one would
  // be a busy wait.
  const int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + kMillisecond - 1) / kMillisecond;
  const int64_t before_ns = ms != 0 ? steady_ns() : 0;
  const int found =
      zmq_poll(items_.data(), int(items_.size()), long(std::min<int64_t>(ms, INT_MAX)));
  if (ms != 0) stats_.waited_ns += steady_ns() - before_ns;
  if (found < 0) return true;  // a signal arrived, so the caller may have to stop
  for (size_t i = 0; found > 0 && i < item_ports_.size(); ++i) {
    const std::shared_ptr<Port>& port = item_ports_[i];
    if ((items_[1 + i].revents & ZMQ_POLLOUT) != 0) flush(peers_.at(port->peer));
    if ((items_[1 + i].revents & ZMQ_POLLIN) == 0 || port->ready) continue;
    port->ready = true;
    ready_.push_back(port);
  }
  if ((items_[0].revents & ZMQ_POLLIN) == 0) return false;
  waker_->clear();
  return true;
}

size_t ZmqTransport::poll(int64_t timeout_ns, size_t messages_max, const Receiver& receiver) {
  DP_CHECK(!polling_);
  polling_ = true;
  now_ns_ = steady_ns();
  const int64_t deadline = timeout_ns > 0 ? now_ns_ + timeout_ns : 0;
  size_t delivered = 0;
  int64_t left_ns = timeout_ns;
  for (bool looked = false;; looked = true) {
    const bool idle = ready_.empty() && loop_.empty();
    const bool woken = (idle || ++polls_since_scan_ >= kPollsPerScan) && scan(idle ? left_ns : 0);
    now_ns_ = steady_ns();
    delivered = deliver(messages_max, receiver);
    if (delivered > 0 || woken) break;
    if (timeout_ns > 0) left_ns = std::max<int64_t>(0, deadline - now_ns_);
    if (left_ns == 0 && (looked || idle)) break;
  }
  report_losses(receiver);
  report_unsendable(receiver);
  polling_ = false;
  return delivered;
}

/// Delivers messages of the loop and of all ready ports, round robin with a burst each.
size_t ZmqTransport::deliver(size_t messages_max, const Receiver& receiver) {
  size_t delivered = 0;
  size_t work = 0;  // malformed messages count too, so that they cannot keep the loop busy
  while (work < messages_max && (!ready_.empty() || !loop_.empty())) {
    const size_t looped = deliver_loop(std::min(kBurst, messages_max - work), receiver);
    delivered += looped;
    work += looped;
    if (ready_.empty()) continue;
    const std::shared_ptr<Port> port = std::move(ready_.front());
    ready_.pop_front();
    bool more = port->open;
    for (size_t n = 0; more && n < kBurst && work < messages_max; ++n) {
      more = receive(port, receiver, delivered) && port->open;
      work += more ? 1 : 0;
    }
    port->ready = more;
    if (more) ready_.push_back(port);
  }
  return delivered;
}

size_t ZmqTransport::deliver_loop(size_t messages_max, const Receiver& receiver) {
  size_t delivered = 0;
  for (size_t n = 0; n < messages_max && !loop_.empty(); ++n) {
    LoopItem item = std::move(loop_.front());
    loop_.pop_front();
    item.credit->release(bytes_of(item.message));
    const auto at = peers_.find(item.from);
    if (at != peers_.end())
      accept(std::shared_ptr<Port>(at->second.port), item.from, std::move(item.message), receiver,
             delivered);
  }
  return delivered;
}

bool ZmqTransport::receive(const std::shared_ptr<Port>& port, const Receiver& receiver,
                           size_t& delivered) {
  const auto take = [&](zmq::message_t& frame) {
    return zmq_msg_recv(frame.handle(), port->socket.handle(), ZMQ_DONTWAIT) >= 0;
  };
  zmq::message_t frame;
  if (!take(frame)) return false;
  PeerId from = port->peer;
  bool trusted_route = true;
  if (port->bound) {
    // ROUTER generates routing ids of 5 bytes that start with 0. Other ids were chosen by a peer.
    trusted_route = frame.size() == 5 && frame.data<uint8_t>()[0] == 0;
    uint32_t route = 0;
    if (trusted_route) std::memcpy(&route, frame.data<uint8_t>() + 1, sizeof(route));
    if (trusted_route) from = peer_by_route(port, route);
    if (!frame.more() || !take(frame)) frame.rebuild();
  }
  std::optional<SharedNote> note;
  if (port->scheme == Scheme::kIpc) {
    note = decode_note({frame.data<uint8_t>(), frame.size()});
    if (note && frame.more() && !take(frame)) frame.rebuild();
  }
  zmq::message_t header = std::move(frame);
  std::array<zmq::message_t, kPayloadsMax> parts;
  size_t part_count = 0;
  uint64_t cost_bytes = kFrameOverheadBytes + header.size();
  for (bool more = header.more(); more; ++part_count) {
    zmq::message_t extra;
    zmq::message_t& part = part_count < kPayloadsMax ? parts[part_count] : extra;
    if (!take(part)) break;
    more = part.more();
    cost_bytes += kFrameOverheadBytes + part.size();
  }
  const auto at = peers_.find(from);
  if (port->bound && has_keys(*port) && at != peers_.end() && at->second.identity.key.empty()) {
    const char* const key = zmq_msg_gets(header.handle(), "User-Id");
    identify(at->second, key != nullptr ? key : "");
  }
  const bool refused = !trusted_route || at == peers_.end() || at->second.dropped;
  if (port->gate != nullptr) account(refused ? nullptr : &at->second, header, cost_bytes);
  if (refused) {
    ++stats_.malformed;
    return true;
  }
  at->second.heard = stats_.received_messages;
  Bytes shared_values;
  if (note) {
    Peer& peer = at->second;
    if (note->kind != SharedNote::Kind::kPayload) {
      on_note(peer, *note);
      return true;
    }
    const SharedView* view = peer.sharing.view.get();
    std::optional<Bytes> values;
    if (view != nullptr && view->name().token == note->arena.token)
      values = peer.sharing.view->take(note->block);
    if (!values) {
      (void)send_note(peer, {SharedNote::Kind::kUnknown, {.token = note->arena.token}, {}});
      return true;  // the message is lost, and its sender or receiver repeats the request
    }
    shared_values = *std::move(values);
  }
  if (port->scheme == Scheme::kInproc) {
    DP_CHECK(header.size() == sizeof(Handover) && part_count == 0, header.size(), part_count);
    header.data<Handover>()->take();
    wire::Message message = std::move(header.data<Handover>()->message);
    header.rebuild();  // releases the credit before the message is processed
    accept(port, from, std::move(message), receiver, delivered);
    return true;
  }
  const std::span<const uint8_t> header_bytes(header.data<uint8_t>(), header.size());
  Result<wire::Message> message = Error{};
  if (part_count > kPayloadsMax) {
    message = Error{.code = ErrorCode::kMalformed,
                    .what = str("message of ", 1 + part_count, " frames; at most 3 are allowed")};
    at->second.malformed = kMalformedMax;  // no process does this by mistake
  } else {
    std::array<Bytes, kPayloadsMax + 1> payloads;
    size_t payload_count = part_count;
    for (size_t i = 0; i < part_count; ++i) payloads[i] = take_bytes(std::move(parts[i]));
    if (note) payloads[payload_count++] = std::move(shared_values);
    message = codec_.decode(header_bytes, std::span(payloads).first(payload_count));
  }
  if (message) {
    if (at->second.connection != nullptr) at->second.connection->prove(now_ns_);
    accept(port, from, *std::move(message), receiver, delivered);
    return true;
  }
  const Result<wire::FrameHeader> opened = wire::open_frame(header_bytes);
  const char* address = header.size() > 0 ? zmq_msg_gets(header.handle(), "Peer-Address") : nullptr;
  message.error().where =
      str(port->endpoint, address != nullptr ? " from " : "", address != nullptr ? address : "");
  refuse(port, from, std::move(message).error(), opened ? opened->envelope.request : RequestId{},
         receiver);
  return true;
}

void ZmqTransport::accept(const std::shared_ptr<Port>& port, PeerId from, wire::Message&& message,
                          const Receiver& receiver, size_t& delivered) {
  ++delivered;
  ++stats_.received_messages;
  stats_.received_bytes += bytes_of(message);
  if (receiver.on_message) receiver.on_message(port->id, from, std::move(message));
}

/// Credits the delivered bytes to the connection that sent the message. If `peer` is null (its
/// routing id was chosen by the sender, or it was dropped), the connection is cut.
void ZmqTransport::account(Peer* peer, zmq::message_t& header, uint64_t cost_bytes) {
  std::shared_ptr<GateConnection> connection = peer != nullptr ? peer->connection : nullptr;
  TcpGate& gate = TcpGate::instance();
  if (connection == nullptr)
    connection = gate.connection(zmq_msg_get(header.handle(), ZMQ_SRCFD), cost_bytes);
  if (connection == nullptr) return;
  connection->delivered(cost_bytes);
  if (peer == nullptr) return gate.cut(*connection, "the receiver rejects its messages");
  peer->connection = std::move(connection);
}

/// Sends a Reject only at bound ports. Otherwise two peers that reject each other's Rejects would
/// continue forever.
void ZmqTransport::refuse(const std::shared_ptr<Port>& port, PeerId from, Error error,
                          RequestId request, const Receiver& receiver) {
  ++stats_.malformed;
  Peer& peer = peers_.at(from);
  const bool drop = ++peer.malformed > kMalformedMax;
  if (port->bound) {
    if (rejects_.pass(now_ns_)) {
      wire::Message reject{.envelope = {.request = request},
                           .body = wire::Reject{error.code, error.what}};
      (void)transmit(peer, reject);  // optional: dropped if there is no room
    }
    peer.dropped = drop;
    if (drop && peer.connection != nullptr)
      TcpGate::instance().cut(*peer.connection, "too many malformed messages");
  } else if (drop) {
    close(from);
  }
  report(port->id, from, std::move(error), receiver);
}

/// Peers control the number of errors, so only some are reported.
void ZmqTransport::report(PortId port, PeerId from, Error error, const Receiver& receiver) {
  if (!receiver.on_malformed || !reports_.pass(now_ns_)) return;
  if (const uint64_t more = reports_.take_suppressed(); more > 0)
    error.what += str(" (and ", more, " more since the last report)");
  receiver.on_malformed(port, from, error);
}

/// Reports connections that the gate has cut or refused, after cutting those that are due.
void ZmqTransport::report_losses(const Receiver& receiver) {
  for (size_t i = 0; i < gated_.size(); ++i) {
    const std::shared_ptr<Port> port = gated_[i];  // a copy, because the receiver may close ports
    TcpGate& gate = TcpGate::instance();
    gate.sweep(now_ns_);
    if (!port->ready) gate.on_drained(*port->gate);
    const std::optional<GateListener::Losses> losses = gate.take_losses(*port->gate);
    if (!losses) continue;
    stats_.connections_cut += losses->connections;
    Error error{.code = ErrorCode::kMalformed, .what = losses->last, .where = port->endpoint};
    if (losses->connections > 1)
      error.what += str(" (last of ", losses->connections, " closed connections)");
    report(port->id, PeerId{}, std::move(error), receiver);
  }
}

void ZmqTransport::report_unsendable(const Receiver& receiver) {
  while (!unsendable_.empty()) {
    Unsendable one = std::move(unsendable_.front());
    unsendable_.pop_front();
    one.error.what = str("a message was not sent: ", one.error.what);
    report(one.port, PeerId{}, std::move(one.error), receiver);
  }
}

// ---- the key of a peer

/// Sets the identity of a peer from its key. A peer of a bound port is dropped if its key is not in
/// the list, or no longer. The key of a connected peer was chosen by this process, so it need not
/// be in the list.
void ZmqTransport::identify(Peer& peer, const std::string& key) {
  const auto parsed = key_from_hex(key);
  const auto allowed = options_.keyring->allowed();
  const AllowedKey* known = parsed ? allowed->find(*parsed) : nullptr;
  peer.identity = {.role = {}, .name = {}, .key = key};
  if (known != nullptr) {
    peer.identity.role = known->role;
    peer.identity.name = known->name;
  } else if (peer.port->bound) {
    peer.dropped = true;
  }
}

/// Checks all peers again after a change of the list of allowed keys.
void ZmqTransport::drop_revoked() {
  if (options_.keyring == nullptr || options_.keyring->version() == list_version_) return;
  list_version_ = options_.keyring->version();
  for (auto& [id, peer] : peers_) {
    if (!peer.identity.key.empty()) identify(peer, peer.identity.key);
  }
}

// ---- memory shared with peers on this machine

void ZmqTransport::on_note(Peer& peer, const SharedNote& note) {
  Sharing& sharing = peer.sharing;
  const uint64_t token = note.arena.token;
  const bool ours = sharing.arena != nullptr && sharing.arena->name().token == token;
  using Kind = SharedNote::Kind;
  switch (note.kind) {
    case Kind::kOffer: {
      sharing.view = options_.shared_memory ? SharedView::open(note.arena) : nullptr;
      const Kind answer = sharing.view ? Kind::kAccept : Kind::kDecline;
      (void)send_note(peer, {answer, {.pid = uint32_t(::getpid()), .token = token}, {}});
      return;
    }
    case Kind::kAccept:
      if (!ours || sharing.state != Sharing::State::kOffered) return;
      sharing.state = Sharing::State::kOpen;
      sharing.pid = note.arena.pid;
      return;
    case Kind::kDecline:
    case Kind::kUnknown:
      if (!ours) return;
      sharing.state =
          note.kind == Kind::kDecline ? Sharing::State::kRefused : Sharing::State::kNone;
      sharing.arena.reset();
      return;
    case Kind::kPayload:
      return;
  }
}

}  // namespace downpour::transport
