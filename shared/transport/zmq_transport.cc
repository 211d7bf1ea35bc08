// The only file that includes ZeroMQ. A bound port is a ROUTER socket, a connected peer a DEALER
// socket of its own. docs/protocol.md gives the reasons for the socket options.
#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <deque>
#include <malloc.h>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <unordered_map>

#include <zmq.hpp>

#include "shared/base/units.h"
#include "shared/transport/address.h"
#include "shared/transport/credit.h"
#include "shared/transport/transport.h"
#include "shared/wire/codec.h"

namespace downpour::transport {
namespace {

constexpr int kSendMessagesMax = 1024;  // a peer's queue inside ZeroMQ, besides its byte credit
constexpr size_t kOutboxMessagesMax = 1024;  // a peer's queue before its connection stands
constexpr uint32_t kMalformedMax = 16;       // more from one peer: it is dropped
constexpr size_t kPeersMax =
    16384;  // of one bound port; beyond, the one silent for longest is forgotten
constexpr size_t kPayloadsMax = 2;
constexpr size_t kBurst = 16;     // messages taken from one port before the next gets its turn
constexpr int kPollsPerScan = 4;  // while ports are busy, all others are looked at this often
constexpr uint64_t kHeaderBytesNominal = 256;  // of a message that is not encoded
constexpr int kLingerMs = 2000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// One context for all transports that live at the same time; the last one ends it.
std::shared_ptr<zmq::context_t> shared_context(int io_threads) {
  static std::mutex mutex;
  static std::weak_ptr<zmq::context_t> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<zmq::context_t> context = current.lock();
  if (context == nullptr) {
    context = std::make_shared<zmq::context_t>(io_threads, 8192);
    current = context;
  }
  return context;
}

/// A message between threads: a pointer in flight. Freed by ZeroMQ with the frame, received or not.
struct Handover {
  wire::Message message;
  std::shared_ptr<Credit> credit;
  uint64_t bytes = 0;
  ~Handover() { credit->release(bytes); }
};

uint64_t bytes_of(const wire::Message& message) {
  return kHeaderBytesNominal + message.keys.size() + message.values.size();
}

/// A frame that is sent from where its bytes lie.
zmq::message_t frame_of(Bytes bytes, const std::shared_ptr<Credit>& credit) {
  auto* parcel = new Parcel(std::move(bytes), credit);
  // ZeroMQ takes a mutable pointer and writes nothing.
  return zmq::message_t(
      const_cast<uint8_t*>(parcel->bytes().data()), parcel->bytes().size(),
      [](void*, void* hint) { delete static_cast<Parcel*>(hint); }, parcel);
}

/// A received frame as bytes, uncopied.
Bytes bytes_of(zmq::message_t&& frame) {
  auto owner = std::make_shared<zmq::message_t>(std::move(frame));
  const void* data = owner->data();
  const size_t size = owner->size();
  return Bytes(std::move(owner), data, size);
}

struct Port {
  PortId id{};
  Scheme scheme{};
  bool bound = false;
  bool open = true;
  bool ready = false;      // stands in ready_
  bool wants_out = false;  // its peer's outbox is not empty
  std::string given;       // endpoint as the caller wrote it
  std::string endpoint;    // wildcards resolved
  zmq::socket_t socket;    // none where both ends are ports of this instance
  PeerId peer{};           // connected
  std::unordered_map<uint32_t, PeerId> peer_of_route;  // bound: by routing id
};

struct Peer {
  std::shared_ptr<Port> port;
  std::shared_ptr<Credit> credit;
  uint32_t route = 0;    // bound: how ROUTER names it
  PeerId other{};        // both ends here: the other end
  bool dropped = false;  // sent too much that was no message
  uint32_t malformed = 0;
  uint64_t heard = 0;                // when, in messages of this transport
  std::deque<wire::Message> outbox;  // connected: waits for the connection
  uint64_t outbox_bytes = 0;
};

class ZmqTransport final : public Transport {
 public:
  explicit ZmqTransport(const ZmqOptions& options)
      : options_(options), context_(shared_context(options.io_threads)) {}
  ~ZmqTransport() override { close_all(0); }

  Result<PortId> bind(const std::string& text) override;
  Result<PeerId> connect(const std::string& text) override;
  std::string endpoint(PortId port) const override;
  PortId port_of(PeerId peer) const override;
  SendStatus send(PeerId peer, wire::Message&& message) override;
  void close(PeerId peer) override;
  void close(PortId port) override;
  size_t poll(int64_t timeout_ns, size_t messages_max, const Receiver& receiver) override;
  void wake() override { waker_->wake(); }
  TransportStats stats() const override { return stats_; }
  void shutdown(int64_t linger_ns) override;

 private:
  enum class Sent : uint8_t { kYes, kAgain, kGone };
  struct LoopItem {
    PeerId from{};  // as the receiving port sees it
    wire::Message message;
    std::shared_ptr<Credit> credit;
  };

  zmq::socket_t make_socket(const Address& address, bool bound);
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
  void flush(Peer& peer);
  bool has_unsent() const;

  bool scan(int64_t timeout_ns);
  size_t deliver(size_t messages_max, const Receiver& receiver);
  size_t deliver_loop(size_t messages_max, const Receiver& receiver);
  /// Whether something was there; `delivered` rises if it was a message.
  bool receive(const std::shared_ptr<Port>& port, const Receiver& receiver, size_t& delivered);
  void accept(const std::shared_ptr<Port>& port, PeerId from, wire::Message&& message,
              const Receiver& receiver, size_t& delivered);
  void refuse(const std::shared_ptr<Port>& port, PeerId from, Error error, RequestId request,
              const Receiver& receiver);

  ZmqOptions options_;
  std::shared_ptr<zmq::context_t> context_;
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  wire::Codec codec_;
  TransportStats stats_;
  uint32_t last_port_ = 0;
  uint64_t last_peer_ = 0;
  std::map<PortId, std::shared_ptr<Port>> ports_;
  std::unordered_map<PeerId, Peer> peers_;
  std::deque<LoopItem> loop_;
  std::deque<std::shared_ptr<Port>> ready_;
  std::vector<zmq_pollitem_t> items_;              // [0] is the waker
  std::vector<std::shared_ptr<Port>> item_ports_;  // of items_[1 + i]
  bool items_stale_ = true;
  bool polling_ = false;
  int polls_since_scan_ = 0;
};

// ---- ports and peers

zmq::socket_t ZmqTransport::make_socket(const Address& address, bool bound) {
  zmq::socket_t socket(*context_, bound ? zmq::socket_type::router : zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, kLingerMs);
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::sndhwm, kSendMessagesMax);
  const uint64_t frame_bytes_max =
      std::max(options_.receive_frame_bytes_max, wire::kHeaderBytesMax);
  socket.set(zmq::sockopt::maxmsgsize, int64_t(frame_bytes_max));
  socket.set(zmq::sockopt::rcvhwm,
             int(std::clamp<uint64_t>(options_.send_bytes_max / frame_bytes_max, 16, 1024)));
  socket.set(zmq::sockopt::handshake_ivl, 5000);
  socket.set(zmq::sockopt::reconnect_ivl, 50);
  socket.set(zmq::sockopt::reconnect_ivl_max, 2000);
  if (address.scheme == Scheme::kTcp) {
    socket.set(zmq::sockopt::heartbeat_ivl, 2000);
    socket.set(zmq::sockopt::heartbeat_timeout, 20000);
    socket.set(zmq::sockopt::connect_timeout, 5000);
    socket.set(zmq::sockopt::ipv6, address.place.front() == '[');
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
    socket.bind(text);
    const std::shared_ptr<Port> port = add_port(address, text, true);
    port->endpoint = socket.get(zmq::sockopt::last_endpoint);
    port->socket = std::move(socket);
    return port->id;
  } catch (const zmq::error_t& error) {
    return bind_error(text, address, error.num());
  }
}

Result<PeerId> ZmqTransport::connect(const std::string& text) {
  DP_TRY(const Address address, parse_address(text, false));
  DP_CHECK(context_ != nullptr);
  for (const auto& [id, port] : ports_) {
    if (port->bound && (port->endpoint == text || port->given == text))
      return connect_loop(port, text);
  }
  try {
    zmq::socket_t socket = make_socket(address, false);
    socket.connect(text);
    const std::shared_ptr<Port> port = add_port(address, text, false);
    port->socket = std::move(socket);
    port->peer = add_peer(port);
    return port->peer;
  } catch (const zmq::error_t& error) {
    return Error{.code = ErrorCode::kConfig,
                 .what = str("can't connect to ", text, ": ", error.what()),
                 .where = text};
  }
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

/// ROUTER does not say when a peer leaves. Who was silent for longest most likely has; if not, it
/// gets a new id.
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
  if (port.socket.handle() == nullptr) return;
  constexpr std::string_view kIpc = "ipc://";
  if (port.bound && port.scheme == Scheme::kIpc && !port.endpoint.starts_with("ipc://@")) {
    ::unlink(port.endpoint.c_str() +
             kIpc.size());  // first: as long as we listen nobody else has taken the path
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
  const int64_t deadline = now_ns() + linger_ns;
  while (has_unsent() && now_ns() < deadline) {
    for (auto& [id, peer] : peers_) {
      if (!peer.outbox.empty()) flush(peer);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  close_all(int(std::max<int64_t>(0, (deadline - now_ns()) / kMillisecond)));
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

/// All frames or, as far as the receiver can tell, none. The message keeps its payloads in any
/// case.
ZmqTransport::Sent ZmqTransport::transmit(Peer& peer, wire::Message& message) {
  Port& port = *peer.port;
  const auto failed = [] { return errno == EAGAIN || errno == EINTR ? Sent::kAgain : Sent::kGone; };
  if (port.bound) {
    std::array<uint8_t, 5> route{};
    std::memcpy(&route[1], &peer.route, sizeof(peer.route));
    zmq::message_t frame(route.data(), route.size());
    if (!send_frame(port, frame, true)) return failed();
  }
  if (port.scheme == Scheme::kInproc) return transmit_pointer(peer, message);
  const auto encoded = codec_.encode(message);
  DP_CHECK(encoded.has_value(), encoded.error().what);
  std::array<zmq::message_t, 1 + kPayloadsMax> frames;
  size_t count = 1;
  frames[0] = frame_of(Bytes::copy_of(encoded->data(), encoded->size()), peer.credit);
  if (!message.keys.empty()) frames[count++] = frame_of(message.keys, peer.credit);
  if (!message.values.empty()) frames[count++] = frame_of(message.values, peer.credit);
  for (size_t i = 0; i < count; ++i) {
    // DEALER takes back the frames already given if it must refuse a later one.
    if (!send_frame(port, frames[i], i + 1 < count)) return failed();
  }
  return Sent::kYes;
}

ZmqTransport::Sent ZmqTransport::transmit_pointer(Peer& peer, wire::Message& message) {
  const uint64_t bytes = bytes_of(message);
  peer.credit->add(bytes);
  auto* handover =
      new Handover{.message = std::move(message), .credit = peer.credit, .bytes = bytes};
  zmq::message_t frame(
      handover, sizeof(Handover), [](void*, void* hint) { delete static_cast<Handover*>(hint); },
      handover);
  if (send_frame(*peer.port, frame, false)) return Sent::kYes;
  const int error_number = errno;
  message = std::move(handover->message);
  return error_number == EAGAIN || error_number == EINTR ? Sent::kAgain : Sent::kGone;
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

// ---- receiving

/// Looks at all sockets, waiting at most `timeout_ns` for one of them. True where the caller was
/// asked to wake up.
bool ZmqTransport::scan(int64_t timeout_ns) {
  polls_since_scan_ = 0;
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
  // Up to the next millisecond, which is what the system call counts: never a busy wait for a
  // fraction of one.
  const int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + kMillisecond - 1) / kMillisecond;
  const int found =
      zmq_poll(items_.data(), int(items_.size()), long(std::min<int64_t>(ms, INT_MAX)));
  if (found < 0) return true;  // a signal: the caller may have to stop
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
  const int64_t deadline = timeout_ns > 0 ? now_ns() + timeout_ns : 0;
  size_t delivered = 0;
  int64_t left_ns = timeout_ns;
  for (bool looked = false;; looked = true) {
    const bool idle = ready_.empty() && loop_.empty();
    const bool woken = (idle || ++polls_since_scan_ >= kPollsPerScan) && scan(idle ? left_ns : 0);
    delivered = deliver(messages_max, receiver);
    if (delivered > 0 || woken) break;
    if (timeout_ns > 0) left_ns = std::max<int64_t>(0, deadline - now_ns());
    if (left_ns == 0 && (looked || idle)) break;
  }
  polling_ = false;
  return delivered;
}

/// Round robin over the loop and all ports that have something, a burst each.
size_t ZmqTransport::deliver(size_t messages_max, const Receiver& receiver) {
  size_t delivered = 0;
  size_t work = 0;  // frames that were no message count too, so that garbage can't keep us here
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
    // Routing ids that ROUTER made up are 5 bytes that start with 0; others were chosen by a peer.
    trusted_route = frame.size() == 5 && frame.data<uint8_t>()[0] == 0;
    uint32_t route = 0;
    if (trusted_route) std::memcpy(&route, frame.data<uint8_t>() + 1, sizeof(route));
    if (trusted_route) from = peer_by_route(port, route);
    if (!frame.more() || !take(frame)) frame.rebuild();
  }
  zmq::message_t header = std::move(frame);
  std::array<zmq::message_t, kPayloadsMax> parts;
  size_t part_count = 0;
  for (bool more = header.more(); more; ++part_count) {
    zmq::message_t extra;
    zmq::message_t& part = part_count < kPayloadsMax ? parts[part_count] : extra;
    if (!take(part)) break;
    more = part.more();
  }
  const auto at = peers_.find(from);
  if (!trusted_route || at == peers_.end() || at->second.dropped) {
    ++stats_.malformed;
    return true;
  }
  at->second.heard = stats_.received_messages;
  if (port->scheme == Scheme::kInproc) {
    DP_CHECK(header.size() == sizeof(Handover) && part_count == 0, header.size(), part_count);
    wire::Message message = std::move(header.data<Handover>()->message);
    header.rebuild();  // gives the credit back before the message is worked on
    accept(port, from, std::move(message), receiver, delivered);
    return true;
  }
  const std::span<const uint8_t> header_bytes(header.data<uint8_t>(), header.size());
  Result<wire::Message> message = Error{};
  if (part_count > kPayloadsMax) {
    message = Error{.code = ErrorCode::kMalformed,
                    .what = str("message of ", 1 + part_count, " frames, at most 3")};
    at->second.malformed = kMalformedMax;  // nobody sends this by mistake
  } else {
    std::array<Bytes, kPayloadsMax> payloads;
    for (size_t i = 0; i < part_count; ++i) payloads[i] = bytes_of(std::move(parts[i]));
    message = codec_.decode(header_bytes, std::span(payloads).first(part_count));
  }
  if (message) {
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

/// Answers at a bound port only: two peers that find each other's answers malformed must not answer
/// for ever.
void ZmqTransport::refuse(const std::shared_ptr<Port>& port, PeerId from, Error error,
                          RequestId request, const Receiver& receiver) {
  ++stats_.malformed;
  Peer& peer = peers_.at(from);
  const bool drop = ++peer.malformed > kMalformedMax;
  if (port->bound) {
    wire::Message reject{.envelope = {.request = request},
                         .body = wire::Reject{error.code, error.what}};
    (void)transmit(peer, reject);  // a courtesy: lost where there is no room
    peer.dropped = drop;
  } else if (drop) {
    close(from);
  }
  if (receiver.on_malformed) receiver.on_malformed(port->id, from, error);
}

}  // namespace

std::unique_ptr<Transport> make_zmq_transport(const ZmqOptions& options) {
  return std::make_unique<ZmqTransport>(options);
}

void tune_malloc_for_frames() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);   // the largest that glibc takes; frames are at most 1 MiB
  mallopt(M_TRIM_THRESHOLD, 512 << 20);  // kept for the next frames
  mallopt(M_TOP_PAD, 16 << 20);
}

}  // namespace downpour::transport
