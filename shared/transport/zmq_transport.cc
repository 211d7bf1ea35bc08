#include "shared/transport/zmq_transport.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "shared/base/units.h"
#include "shared/env/steady_time.h"
#include "shared/transport/listen.h"

namespace downpour::transport {
namespace {

constexpr int kSendMessagesMax = 1024;  // per peer inside ZeroMQ, in addition to its byte credit
constexpr size_t kOutboxMessagesMax = 1024;  // per peer, before it is connected
// peers of a bound port; above it, those silent for longest are forgotten
constexpr size_t kPeersMax = 16384;
constexpr int kLingerMs = 2000;
// Bytes that CURVE adds to a frame: name of the command (8), nonce (8), flags (1), authenticator
// (16).
constexpr uint64_t kCurveFrameBytes = 33;

/// Returns a frame that ZeroMQ sends from the memory of `bytes`, without a copy.
zmq::message_t frame_of(Bytes bytes, const std::shared_ptr<Credit>& credit) {
  auto* parcel = new Parcel(std::move(bytes), credit);
  // ZeroMQ takes a mutable pointer but does not write.
  return zmq::message_t(
      const_cast<uint8_t*>(parcel->bytes().data()), parcel->bytes().size(),
      [](void*, void* hint) { delete static_cast<Parcel*>(hint); }, parcel);
}

}  // namespace

#if defined(__SANITIZE_THREAD__)
void Handover::give() const { __tsan_release(const_cast<Handover*>(this)); }
void Handover::take() const { __tsan_acquire(const_cast<Handover*>(this)); }
#else
void Handover::give() const {}
void Handover::take() const {}
#endif

ZmqTransport::ZmqTransport(const ZmqOptions& options)
    : options_(options), context_(shared_context(options.io_threads)) {}

ZmqTransport::~ZmqTransport() { close_all(0); }

// ---- ports and peers

zmq::socket_t ZmqTransport::make_socket(const Address& address, bool bound) {
  zmq::socket_t socket(context_->zmq(),
                       bound ? zmq::socket_type::router : zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, kLingerMs);
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::sndhwm, kSendMessagesMax);
  // libzmq compares this limit with the bytes on the wire, and does not reconnect after a larger
  // frame.
  const bool encrypted = address.scheme == Scheme::kTcp && options_.keyring != nullptr;
  socket.set(zmq::sockopt::maxmsgsize,
             int64_t(frame_bytes_max() + (encrypted ? kCurveFrameBytes : 0)));
  socket.set(zmq::sockopt::rcvhwm, int(receive_messages_max()));
  socket.set(zmq::sockopt::handshake_ivl, 5000);
  socket.set(zmq::sockopt::reconnect_ivl, 50);
  socket.set(zmq::sockopt::reconnect_ivl_max, 2000);
  if (address.scheme == Scheme::kTcp) {
    socket.set(zmq::sockopt::heartbeat_ivl, 2000);
    socket.set(zmq::sockopt::heartbeat_timeout, 20000);
    socket.set(zmq::sockopt::connect_timeout, 5000);
    socket.set(zmq::sockopt::ipv6, address.ipv6);
  }
  if (bound) {
    socket.set(zmq::sockopt::backlog, 4096);
    socket.set(zmq::sockopt::router_mandatory, true);
  }
  return socket;
}

std::shared_ptr<Port> ZmqTransport::add_port(const Address& address, const std::string& text,
                                             bool bound) {
  auto port = std::make_shared<Port>();
  port->id = PortId(++last_port_);
  port->scheme = address.scheme;
  port->bound = bound;
  port->given = text;
  port->endpoint = text;
  ports_[port->id] = port;
  items_stale_ = true;
  return port;
}

PeerId ZmqTransport::add_peer(const std::shared_ptr<Port>& port) {
  const auto id = PeerId(++last_peer_);
  peers_[id] =
      Peer{.port = port, .credit = std::make_shared<Credit>(waker_, options_.send_bytes_max)};
  return id;
}

Result<PortId> ZmqTransport::bind(const std::string& text) {
  DP_TRY(const Address address, parse_address(text, true));
  DP_CHECK(context_ != nullptr);
  if (address.scheme == Scheme::kIpc) DP_TRY_VOID(check_ipc_path(address.place));
  try {
    zmq::socket_t socket = make_socket(address, true);
    const bool keys = address.scheme == Scheme::kTcp && options_.keyring != nullptr;
    if (keys) DP_TRY_VOID(make_curve_server(*context_, socket, options_.keyring));
    std::shared_ptr<GateListener> gate;
    if (address.scheme == Scheme::kTcp) {
      DP_TRY(gate, listen(text, address, socket));
    }
    socket.bind(text);
    std::string endpoint = socket.get(zmq::sockopt::last_endpoint);
    if (keys) {
      const Key& own = options_.keyring->own().public_key;
      DP_TRY_VOID(check_refuses_strangers(*context_, endpoint, own));
      endpoint = with_key(endpoint, own);
    }
    const std::shared_ptr<Port> port = add_port(address, text, true);
    port->endpoint = std::move(endpoint);
    port->gate = std::move(gate);
    if (port->gate != nullptr) gated_.push_back(port);
    port->socket = std::move(socket);
    return port->id;
  } catch (const zmq::error_t& error) {
    return bind_error(text, address, error.num());
  }
}

uint64_t ZmqTransport::frame_bytes_max() const {
  return std::max(options_.receive_frame_bytes_max, wire::kHeaderBytesMax);
}

/// Returns the limit for one connection in libzmq's queue.
uint64_t ZmqTransport::receive_messages_max() const {
  return std::clamp<uint64_t>(options_.send_bytes_max / frame_bytes_max(), 16, 1024);
}

/// Creates the listening descriptor for the socket. So it listens exactly on the resolved address,
/// and the gate knows its connections.
Result<std::shared_ptr<GateListener>> ZmqTransport::listen(const std::string& text,
                                                           const Address& address,
                                                           zmq::socket_t& socket) {
  DP_TRY(const ListenAddress where, resolve_listen(text, address));
  DP_TRY(const int fd, listen_on(text, address, where));
  constexpr uint64_t kFramesMax = 1 + kPayloadsMax;
  // a full queue, the message that did not fit into it, and the bytes that libzmq has read and not
  // decoded
  const uint64_t held_bytes_max =
      (receive_messages_max() + 2) * kFramesMax * (frame_bytes_max() + kFrameOverheadBytes);
  auto gate = TcpGate::instance().add_listener(fd, kFramesMax, held_bytes_max);
  socket.set(zmq::sockopt::use_fd, fd);  // the socket closes it from now on
  return gate;
}

Result<PeerId> ZmqTransport::connect(const std::string& text) {
  DP_TRY(const KeyedEndpoint to, split_key(text));
  DP_TRY(const Address address, parse_address(to.endpoint, false));
  DP_CHECK(context_ != nullptr);
  for (const auto& [id, port] : ports_) {
    if (port->bound && (port->endpoint == text || port->given == text))
      return connect_loop(port, text);
  }
  try {
    DP_TRY(zmq::socket_t socket, make_connecting_socket(address, to));
    socket.connect(to.endpoint);
    const std::shared_ptr<Port> port = add_port(address, text, false);
    port->socket = std::move(socket);
    port->peer = add_peer(port);
    if (to.key) identify(peers_[port->peer], hex_of(*to.key));
    return port->peer;
  } catch (const zmq::error_t& error) {
    return Error{.code = ErrorCode::kConfig,
                 .what = str("can't connect to ", text, ": ", error.what()),
                 .where = text};
  }
}

Result<zmq::socket_t> ZmqTransport::make_connecting_socket(const Address& address,
                                                           const KeyedEndpoint& to) {
  const bool has_keyring = options_.keyring != nullptr;
  if (address.scheme == Scheme::kTcp && has_keyring != to.key.has_value()) {
    return Error{
        ErrorCode::kPermission,
        has_keyring
            ? str("the key of the process at ", to.endpoint, " is not known")
            : str("the process at ", to.endpoint, " requires a key, but this process has none"),
        to.endpoint, "start all processes of a job with --keys, or all of them with --insecure",
        "DP-2711"};
  }
  zmq::socket_t socket = make_socket(address, false);
  if (to.key) make_curve_client(socket, options_.keyring->own(), *to.key);
  return socket;
}

bool ZmqTransport::has_keys(const Port& port) const {
  return port.scheme == Scheme::kTcp && options_.keyring != nullptr;
}

const PeerIdentity& ZmqTransport::identity(PeerId peer) const {
  static const PeerIdentity none;
  const auto at = peers_.find(peer);
  return at == peers_.end() ? none : at->second.identity;
}

PeerId ZmqTransport::connect_loop(const std::shared_ptr<Port>& bound, const std::string& text) {
  const std::shared_ptr<Port> port = add_port({bound->scheme, {}}, text, false);
  const PeerId near = add_peer(port);
  const PeerId far = add_peer(bound);
  port->peer = near;
  peers_[near].other = far;
  peers_[far].other = near;
  return near;
}

std::string ZmqTransport::endpoint(PortId port) const {
  const auto at = ports_.find(port);
  return at == ports_.end() ? std::string() : at->second->endpoint;
}

PortId ZmqTransport::port_of(PeerId peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? PortId{} : at->second.port->id;
}

PeerId ZmqTransport::peer_by_route(const std::shared_ptr<Port>& port, uint32_t route) {
  const auto at = port->peer_of_route.find(route);
  if (at != port->peer_of_route.end()) return at->second;
  if (port->peer_of_route.size() >= kPeersMax) forget_oldest(*port);
  const PeerId id = add_peer(port);
  peers_[id].route = route;
  port->peer_of_route[route] = id;
  return id;
}

/// Forgets a quarter of the peers, those silent for longest, because ROUTER does not report when a
/// peer leaves. A forgotten peer that sends again gets a new id.
void ZmqTransport::forget_oldest(Port& port) {
  std::vector<std::pair<uint64_t, PeerId>> heard;
  for (const auto& [route, id] : port.peer_of_route) heard.emplace_back(peers_[id].heard, id);
  const auto middle = heard.begin() + ptrdiff_t(heard.size() / 4);
  std::nth_element(heard.begin(), middle, heard.end());
  for (auto it = heard.begin(); it != middle; ++it) close(it->second);
}

void ZmqTransport::close(PeerId peer) {
  const auto at = peers_.find(peer);
  if (at == peers_.end()) return;
  const std::shared_ptr<Port> port = at->second.port;
  const PeerId other = at->second.other;
  if (port->bound && other == PeerId{}) port->peer_of_route.erase(at->second.route);
  peers_.erase(at);
  if (other != PeerId{}) close(other);
  if (!port->bound) {
    close_socket(*port, kLingerMs);
    ports_.erase(port->id);
  }
}

void ZmqTransport::close(PortId id) {
  const auto at = ports_.find(id);
  if (at == ports_.end()) return;
  const std::shared_ptr<Port> port = at->second;
  if (!port->bound) return close(port->peer);
  ports_.erase(at);
  std::vector<PeerId> gone;
  for (const auto& [peer_id, peer] : peers_) {
    if (peer.port == port) gone.push_back(peer_id);
  }
  for (const PeerId peer : gone) close(peer);
  close_socket(*port, kLingerMs);
}

void ZmqTransport::close_socket(Port& port, int linger_ms) {
  port.open = false;
  items_stale_ = true;
  std::erase_if(gated_, [&](const auto& gated) { return gated.get() == &port; });
  if (port.socket.handle() == nullptr) return;
  constexpr std::string_view kIpc = "ipc://";
  if (port.bound && port.scheme == Scheme::kIpc) {
    // before closing: as long as this process listens, no other process has taken the path
    ::unlink(port.endpoint.c_str() + kIpc.size());
  }
  port.socket.set(zmq::sockopt::linger, linger_ms);
  port.socket.close();
}

void ZmqTransport::close_all(int linger_ms) {
  for (const auto& [id, port] : ports_) close_socket(*port, linger_ms);
  ports_.clear();
  peers_.clear();
  loop_.clear();
  ready_.clear();
  items_.clear();
  item_ports_.clear();
  context_.reset();
}

bool ZmqTransport::has_unsent() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    return entry.second.other == PeerId{} &&
           (entry.second.credit->bytes() > 0 || !entry.second.outbox.empty());
  });
}

void ZmqTransport::shutdown(int64_t linger_ns) {
  const int64_t deadline = steady_ns() + linger_ns;
  while (has_unsent() && steady_ns() < deadline) {
    for (auto& [id, peer] : peers_) {
      if (!peer.outbox.empty()) flush(peer);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  close_all(int(std::max<int64_t>(0, (deadline - steady_ns()) / kMillisecond)));
}

// ---- sending

SendStatus ZmqTransport::send(PeerId id, wire::Message&& message) {
  const auto at = peers_.find(id);
  if (at == peers_.end() || at->second.dropped) return SendStatus::kGone;
  Peer& peer = at->second;
  const uint64_t bytes = bytes_of(message);
  if (!peer.credit->admits(bytes + peer.outbox_bytes)) return SendStatus::kFull;
  if (peer.other != PeerId{}) {
    peer.credit->add(bytes);
    loop_.push_back({peer.other, std::move(message), peer.credit});
  } else if (const Sent sent = peer.outbox.empty() ? transmit(peer, message) : Sent::kAgain;
             sent == Sent::kGone) {
    close(id);
    return SendStatus::kGone;
  } else if (sent == Sent::kTooLarge) {
    return SendStatus::kTooLarge;
  } else if (sent == Sent::kAgain) {
    const bool fits =
        peer.outbox_bytes == 0 || peer.outbox_bytes + bytes <= options_.send_bytes_max;
    if (peer.port->bound || peer.outbox.size() >= kOutboxMessagesMax || !fits) {
      peer.credit->block();
      return SendStatus::kFull;
    }
    peer.outbox_bytes += bytes;
    peer.outbox.push_back(std::move(message));
    peer.port->wants_out = true;
  }
  ++stats_.sent_messages;
  stats_.sent_bytes += bytes;
  return SendStatus::kSent;
}

bool ZmqTransport::send_frame(Port& port, zmq::message_t& frame, bool more) {
  return zmq_msg_send(frame.handle(), port.socket.handle(),
                      ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

/// Sends all frames of a message or, as far as the receiver can see, none. The message keeps its
/// payloads in any case.
ZmqTransport::Sent ZmqTransport::transmit(Peer& peer, wire::Message& message) {
  Port& port = *peer.port;
  const auto failed = [] { return errno == EAGAIN || errno == EINTR ? Sent::kAgain : Sent::kGone; };
  // Encode before anything is sent or shared.
  std::optional<std::span<const uint8_t>> encoded;
  if (port.scheme != Scheme::kInproc) {
    Result<std::span<const uint8_t>> frame = codec_.encode(message);
    if (!frame) return drop_unsendable(peer, std::move(frame).error());
    encoded = *frame;
  }
  const std::optional<SharedNote> note = share(peer, message.values);
  const auto undo = [&] {
    const int error_number = errno;
    if (note) peer.sharing.arena->take_back(note->block);
    errno = error_number;
    return failed();
  };
  if (!send_route(peer)) return undo();
  if (port.scheme == Scheme::kInproc) return transmit_pointer(peer, message);
  std::array<zmq::message_t, 2 + kPayloadsMax> frames;
  size_t count = 0;
  if (note) {
    const auto bytes = encode_note(*note);
    frames[count++] = zmq::message_t(bytes.data(), bytes.size());
  }
  frames[count++] = frame_of(Bytes::copy_of(encoded->data(), encoded->size()), peer.credit);
  if (!message.keys.empty()) frames[count++] = frame_of(message.keys, peer.credit);
  if (!message.values.empty() && !note) frames[count++] = frame_of(message.values, peer.credit);
  for (size_t i = 0; i < count; ++i) {
    // DEALER takes back frames already accepted if it must refuse a later one.
    if (!send_frame(port, frames[i], i + 1 < count)) return undo();
  }
  if (note) stats_.shared_bytes += note->block.bytes;
  return Sent::kYes;
}

/// Records a message that fits into no frame, for example because a peer caused long lists in it.
ZmqTransport::Sent ZmqTransport::drop_unsendable(const Peer& peer, Error error) {
  constexpr size_t kKeptMax = 64;
  ++stats_.unsendable;
  error.where = peer.port->endpoint;
  if (unsendable_.size() < kKeptMax)
    unsendable_.push_back({.port = peer.port->id, .error = std::move(error)});
  waker_->wake();
  return Sent::kTooLarge;
}

/// Sends ROUTER's first frame. Does nothing for a connected peer.
bool ZmqTransport::send_route(Peer& peer) {
  if (!peer.port->bound) return true;
  std::array<uint8_t, 5> route{};
  std::memcpy(&route[1], &peer.route, sizeof(peer.route));
  zmq::message_t frame(route.data(), route.size());
  return send_frame(*peer.port, frame, true);
}

ZmqTransport::Sent ZmqTransport::transmit_pointer(Peer& peer, wire::Message& message) {
  const uint64_t bytes = bytes_of(message);
  peer.credit->add(bytes);
  auto* handover =
      new Handover{.message = std::move(message), .credit = peer.credit, .bytes = bytes};
  handover->give();
  zmq::message_t frame(
      handover, sizeof(Handover),
      [](void*, void* hint) {
        static_cast<Handover*>(hint)->take();
        delete static_cast<Handover*>(hint);
      },
      handover);
  if (send_frame(*peer.port, frame, false)) return Sent::kYes;
  const int error_number = errno;
  message = std::move(handover->message);
  return error_number == EAGAIN || error_number == EINTR ? Sent::kAgain : Sent::kGone;
}

// ---- memory shared with peers on this machine

/// Puts large values where the peer can read them, or first offers an arena. Returns nothing if the
/// values must travel through the socket.
std::optional<SharedNote> ZmqTransport::share(Peer& peer, const Bytes& values) {
  Sharing& sharing = peer.sharing;
  if (!options_.shared_memory || peer.port->scheme != Scheme::kIpc ||
      values.size() < kSharedBytesMin)
    return std::nullopt;
  if (sharing.state == Sharing::State::kNone) {
    drop_orphans();
    sharing.arena = SharedArena::create();
    if (sharing.arena == nullptr) {
      sharing.state = Sharing::State::kRefused;
    } else if (send_note(peer, {SharedNote::Kind::kOffer, sharing.arena->name(), {}})) {
      sharing.state = Sharing::State::kOffered;
    }
  }
  if (sharing.state != Sharing::State::kOpen) return std::nullopt;
  const std::optional<BlockRef> block = sharing.arena->put(steady_ns(), values.span());
  if (!block) return std::nullopt;
  return SharedNote{SharedNote::Kind::kPayload, {.token = sharing.arena->name().token}, *block};
}

/// Sends a note, which may be lost: without it the socket continues to carry everything.
bool ZmqTransport::send_note(Peer& peer, const SharedNote& note) {
  const auto bytes = encode_note(note);
  zmq::message_t frame(bytes.data(), bytes.size());
  return send_route(peer) && send_frame(*peer.port, frame, false);
}

/// Frees arenas whose reader has died, when a new one is created, because ROUTER does not report
/// when a peer leaves.
void ZmqTransport::drop_orphans() {
  for (auto& [id, peer] : peers_) {
    Sharing& sharing = peer.sharing;
    if (sharing.state != Sharing::State::kOpen || ::kill(pid_t(sharing.pid), 0) == 0 ||
        errno != ESRCH)
      continue;
    sharing = {};
  }
}

void ZmqTransport::flush(Peer& peer) {
  while (!peer.outbox.empty()) {
    const uint64_t bytes = bytes_of(peer.outbox.front());
    if (transmit(peer, peer.outbox.front()) == Sent::kAgain) break;
    peer.outbox.pop_front();
    peer.outbox_bytes -= bytes;
  }
  peer.port->wants_out = !peer.outbox.empty();
  if (peer.outbox.empty()) peer.credit->unblock();
}

std::unique_ptr<Transport> make_zmq_transport(const ZmqOptions& options) {
  return std::make_unique<ZmqTransport>(options);
}

}  // namespace downpour::transport
