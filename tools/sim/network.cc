#include "tools/sim/network.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace downpour::sim {
namespace {

using transport::PeerId;
using transport::PortId;
using transport::SendStatus;

constexpr uint64_t kQueueBytesMax =
    64 * kMiB;  // per connection and direction, as in the real transport
constexpr uint64_t kQueueMessagesMax = 1024;
constexpr size_t kChecksumAt = 12;  // offset of the checksum in the header frame
constexpr int64_t kBackoffNs = 50 * kMillisecond;
constexpr int64_t kBackoffNsMax = 2 * kSecond;

/// Returns whether a process of another run could send this message to a reused port. Messages that
/// join or end a process are excluded, because such a process never gets that far.
bool is_foreign_possible(const wire::Message& message) {
  return message.envelope.run != 0 && !std::holds_alternative<wire::Hello>(message.body) &&
         !std::holds_alternative<wire::Welcome>(message.body) &&
         !std::holds_alternative<wire::Refused>(message.body) &&
         !std::holds_alternative<wire::Stop>(message.body);
}

}  // namespace

std::unique_ptr<SimTransport> SimNetwork::make_transport(ProcessNumber process,
                                                         std::function<void()> wake) {
  auto transport = std::make_unique<SimTransport>(*this, process, std::move(wake));
  transports_[transport->number()] = transport.get();
  return transport;
}

// ---- connections

void SimNetwork::dial(uint64_t id, int64_t delay_ns) {
  scheduler_.after(delay_ns, [this, id] { try_connect(id); });
}

void SimNetwork::try_connect(uint64_t id) {
  const auto at = connections_.find(id);
  if (at == connections_.end() || at->second.server != nullptr) return;
  Connection& connection = at->second;
  const std::vector<Binding>& bound = bound_[connection.endpoint];
  const ProcessNumber client = connection.client->process();
  const bool reaches = !bound.empty() &&
                       !held_.contains({client, bound.back().transport->process()}) &&
                       !held_.contains({bound.back().transport->process(), client});
  if (!reaches) {
    connection.backoff_ns = std::clamp(2 * connection.backoff_ns, kBackoffNs, kBackoffNsMax);
    return dial(id, connection.backoff_ns + int64_t(rng_.below(uint64_t(kBackoffNs))));
  }
  connection.backoff_ns = 0;
  connection.server = bound.back().transport;
  connection.server_port = bound.back().port;
  connection.server_peer = connection.server->add_peer(connection.server_port, id, false);
  auto& outbox = connection.client->peers_.at(connection.client_peer).outbox;
  while (!outbox.empty()) {
    transmit(connection, true, std::move(outbox.front()));
    outbox.pop_front();
  }
  connection.client->wake();
}

void SimNetwork::broken(Connection& connection, bool dial_again) {
  ++connection.life;
  for (Way* way : {&connection.to_server, &connection.to_client}) {
    counts_.lost_with_connection += way->queued_messages;
    *way = {.last_ns = way->last_ns, .queued_bytes = 0, .queued_messages = 0, .held = {}};
  }
  if (connection.server != nullptr) connection.server->peers_.erase(connection.server_peer);
  connection.server = nullptr;
  if (dial_again) {
    connection.client->wake();
    dial(connection.id, kBackoffNs + int64_t(rng_.below(uint64_t(kBackoffNs))));
  }
}

void SimNetwork::close(uint64_t id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  broken(at->second, false);
  at->second.client->peers_.erase(at->second.client_peer);
  connections_.erase(at);
}

/// Removes a transport whose process has ended. Its clients try to reconnect.
void SimNetwork::gone(SimTransport& transport) {
  transports_.erase(transport.number());
  for (auto& [endpoint, bindings] : bound_)
    std::erase_if(bindings, [&](const Binding& b) { return b.transport == &transport; });
  std::vector<uint64_t> doomed;
  for (auto& [id, connection] : connections_) {
    if (connection.client == &transport) {
      doomed.push_back(id);
    } else if (connection.server == &transport) {
      broken(connection, true);
    }
  }
  for (const uint64_t id : doomed) close(id);
}

// ---- messages

void SimNetwork::transmit(Connection& connection, bool to_server, Parcel&& parcel) {
  ++counts_.messages;
  counts_.bytes += parcel.bytes();
  if (chance(faults.drop)) {
    ++counts_.dropped;
    return;
  }
  Way& way = to_server ? connection.to_server : connection.to_client;
  const auto travel_ns = int64_t(double(parcel.bytes()) / speed.bytes_per_s * 1e9);
  int64_t when =
      scheduler_.now_ns() + speed.latency_ns + int64_t(rng_.below(uint64_t(speed.jitter_ns) + 1));
  if (chance(faults.delay)) {
    ++counts_.delayed;
    when += int64_t(rng_.below(uint64_t(faults.delay_ns_max)));
  }
  if (chance(faults.duplicate)) {  // the copy is not in order, and may be late
    ++counts_.duplicated;
    const int64_t late =
        rng_.below(4) == 0 ? int64_t(rng_.below(uint64_t(faults.delay_ns_max))) : 0;
    arrive_at(connection, to_server, when + late, Parcel(parcel), false);
  }
  when = std::max(when, way.last_ns) + travel_ns;
  way.last_ns = when;
  way.queued_bytes += parcel.bytes();
  ++way.queued_messages;
  arrive_at(connection, to_server, when, std::move(parcel), true);
}

void SimNetwork::arrive_at(const Connection& connection, bool to_server, int64_t when_ns,
                           Parcel&& parcel, bool counted) {
  const SimTransport& from = to_server ? *connection.client : *connection.server;
  const SimTransport& to = to_server ? *connection.server : *connection.client;
  const Destination destination{
      .from = from.process(),
      .to = to.number(),
      .port = to_server ? connection.server_port : to.port_of(connection.client_peer),
      .peer = to_server ? connection.server_peer : connection.client_peer};
  scheduler_.at(when_ns, [this, id = connection.id, life = connection.life, to_server, counted,
                          destination, moved = std::move(parcel)]() mutable {
    const auto at = connections_.find(id);
    const bool stands =
        at != connections_.end() && at->second.life == life && at->second.server != nullptr;
    if (stands) return arrive(at->second, to_server, std::move(moved), counted);
    if (!faults.late_mail || !chance(0.5)) return;
    send_again(destination, std::move(moved));
  });
}

void SimNetwork::send_again(const Destination& destination, Parcel&& parcel) {
  scheduler_.after(int64_t(rng_.below(uint64_t(faults.delay_ns_max))),
                   [this, destination, late = std::move(parcel)]() mutable {
                     arrive_late(destination, std::move(late));
                   });
}

/// Delivers a message whose connection has broken, as if the receiver's operating system had
/// received it before.
void SimNetwork::arrive_late(const Destination& destination, Parcel&& parcel) {
  const auto at = transports_.find(destination.to);
  if (at == transports_.end()) return;
  SimTransport& to = *at->second;
  if (held_.contains({destination.from, to.process()})) return;
  ++counts_.late;
  to.inbox_.push_back({.from = destination.from,
                       .port = destination.port,
                       .peer = destination.peer,
                       .connection = 0,
                       .counted = false,
                       .parcel = std::move(parcel)});
  to.wake();
}

void SimNetwork::arrive(Connection& connection, bool to_server, Parcel&& parcel, bool counted) {
  SimTransport& from = to_server ? *connection.client : *connection.server;
  SimTransport& to = to_server ? *connection.server : *connection.client;
  Way& way = to_server ? connection.to_server : connection.to_client;
  if (held_.contains({from.process(), to.process()})) {
    ++counts_.held;
    if (counted) way.held.push_back(std::move(parcel));
    return;
  }
  to.inbox_.push_back(
      {.from = from.process(),
       .port = to_server ? connection.server_port : to.port_of(connection.client_peer),
       .peer = to_server ? connection.server_peer : connection.client_peer,
       .connection = connection.id,
       .counted = counted,
       .parcel = std::move(parcel)});
  to.wake();
}

// ---- faults

void SimNetwork::hold(ProcessNumber from, ProcessNumber to) { held_.insert({from, to}); }

void SimNetwork::let_go(ProcessNumber from, ProcessNumber to, bool lose) {
  if (held_.erase({from, to}) == 0) return;
  if (lose) return reset(from, to);
  for (auto& [id, connection] : connections_) {
    if (connection.server == nullptr) continue;
    const bool to_server =
        connection.client->process() == from && connection.server->process() == to;
    const bool to_client =
        connection.server->process() == from && connection.client->process() == to;
    if (!to_server && !to_client) continue;
    Way& way = to_server ? connection.to_server : connection.to_client;
    for (std::deque<Parcel> held = std::move(way.held); !held.empty(); held.pop_front()) {
      arrive(connection, to_server, std::move(held.front()), true);
    }
    way.held.clear();
  }
}

void SimNetwork::reset(ProcessNumber a, ProcessNumber b) {
  for (auto& [id, connection] : connections_) {
    if (connection.server == nullptr) continue;
    const std::pair pair(connection.client->process(), connection.server->process());
    if (pair == std::pair(a, b) || pair == std::pair(b, a)) broken(connection, true);
  }
}

void SimNetwork::lead_to(ProcessNumber process) {
  for (auto& [endpoint, bindings] : bound_) {
    const auto own = std::find_if(bindings.begin(), bindings.end(), [&](const Binding& b) {
      return b.transport->process() == process;
    });
    if (own == bindings.end() || own + 1 == bindings.end()) continue;
    std::rotate(own, own + 1, bindings.end());
    for (auto& [id, connection] : connections_) {
      if (connection.server != nullptr && connection.endpoint == endpoint) broken(connection, true);
    }
  }
}

std::vector<std::pair<ProcessNumber, ProcessNumber>> SimNetwork::connected() const {
  std::set<std::pair<ProcessNumber, ProcessNumber>> pairs;
  for (const auto& [id, connection] : connections_) {
    if (connection.server != nullptr)
      pairs.insert({connection.client->process(), connection.server->process()});
  }
  return {pairs.begin(), pairs.end()};
}

// ---- SimTransport

SimTransport::SimTransport(SimNetwork& network, ProcessNumber process, std::function<void()> wake)
    : network_(network),
      process_(process),
      number_(++network.last_transport_),
      wake_(std::move(wake)) {}

SimTransport::~SimTransport() { network_.gone(*this); }

Result<PortId> SimTransport::bind(const std::string& endpoint) {
  const auto port = PortId(++last_port_);
  ports_[port] = endpoint;
  network_.bound_[endpoint].push_back({this, port});  // the last process to bind gets the address
  return port;
}

std::string SimTransport::endpoint(PortId port) const {
  const auto at = ports_.find(port);
  return at == ports_.end() ? std::string() : at->second;
}

Result<PeerId> SimTransport::connect(const std::string& endpoint) {
  const auto port = PortId(++last_port_);
  ports_[port] = endpoint;
  const uint64_t id = ++network_.last_id_;
  SimNetwork::Connection& connection = network_.connections_[id];
  connection.id = id;
  connection.client = this;
  connection.endpoint = endpoint;
  connection.client_peer = add_peer(port, id, true);
  network_.dial(id, network_.speed.latency_ns);
  return connection.client_peer;
}

PeerId SimTransport::add_peer(PortId port, uint64_t connection, bool client) {
  const auto id = PeerId(++last_peer_);
  peers_[id] = {.port = port, .connection = connection, .client = client, .outbox = {}};
  return id;
}

PortId SimTransport::port_of(PeerId peer) const {
  const auto at = peers_.find(peer);
  return at == peers_.end() ? PortId{} : at->second.port;
}

SendStatus SimTransport::send(PeerId id, wire::Message&& message) {
  const auto at = peers_.find(id);
  if (at == peers_.end()) return SendStatus::kGone;
  if (network_.muted_.contains(process_)) return SendStatus::kSent;
  Peer& peer = at->second;
  SimNetwork::Connection& connection = network_.connections_.at(peer.connection);
  const SimNetwork::Way& way = peer.client ? connection.to_server : connection.to_client;
  const uint64_t messages_max = network_.faults.queue_messages_max > 0
                                    ? network_.faults.queue_messages_max
                                    : kQueueMessagesMax;
  const bool up = connection.server != nullptr;
  const uint64_t queued = up ? way.queued_messages : peer.outbox.size();
  if (queued >= messages_max || (queued > 0 && way.queued_bytes > kQueueBytesMax)) {
    ++network_.counts_.full;
    return SendStatus::kFull;
  }
  const auto encoded = codec_.encode(message);
  DP_CHECK(encoded.has_value(), encoded.error().what);
  Parcel parcel{.header = {encoded->begin(), encoded->end()},
                .keys = std::move(message.keys),
                .values = std::move(message.values)};
  ++stats_.sent_messages;
  stats_.sent_bytes += parcel.bytes();
  if (up) {
    network_.transmit(connection, peer.client, std::move(parcel));
  } else {
    peer.outbox.push_back(std::move(parcel));
  }
  return SendStatus::kSent;
}

void SimTransport::close(PeerId id) {
  const auto at = peers_.find(id);
  if (at == peers_.end()) return;
  const Peer& peer = at->second;
  if (peer.client) {
    ports_.erase(peer.port);
    return network_.close(peer.connection);
  }
  network_.broken(network_.connections_.at(peer.connection), true);
}

void SimTransport::close(PortId port) {
  const auto at = ports_.find(port);
  if (at == ports_.end()) return;
  std::erase(network_.bound_[at->second], SimNetwork::Binding{this, port});
  ports_.erase(at);
  std::vector<PeerId> peers;
  for (const auto& [id, peer] : peers_) {
    if (peer.port == port) peers.push_back(id);
  }
  for (const PeerId peer : peers) close(peer);
}

size_t SimTransport::poll(int64_t timeout_ns, size_t messages_max,
                          const transport::Receiver& receiver) {
  timeout_ns_ = timeout_ns;
  size_t delivered = 0;
  while (delivered < messages_max && !inbox_.empty()) {
    Mail mail = std::move(inbox_.front());
    inbox_.pop_front();
    ++delivered;
    const auto at = network_.connections_.find(mail.connection);
    if (mail.counted && at != network_.connections_.end()) {
      SimNetwork::Connection& connection = at->second;
      SimNetwork::Way& way =
          connection.server == this ? connection.to_server : connection.to_client;
      way.queued_bytes -= std::min(way.queued_bytes, mail.parcel.bytes());
      if (way.queued_messages > 0) --way.queued_messages;
      SimTransport* sender = connection.server == this ? connection.client : connection.server;
      if (network_.faults.queue_messages_max > 0 && sender != nullptr) sender->wake();
    }
    receive(mail, receiver);
  }
  return delivered;
}

void SimTransport::receive(Mail& mail, const transport::Receiver& receiver) {
  ++stats_.received_messages;
  stats_.received_bytes += mail.parcel.bytes();
  std::array<Bytes, 2> payloads;
  size_t count = 0;
  Parcel copy;
  if (network_.comes_again && mail.connection != 0) copy = mail.parcel;
  if (!mail.parcel.keys.empty()) payloads[count++] = std::move(mail.parcel.keys);
  if (!mail.parcel.values.empty()) payloads[count++] = std::move(mail.parcel.values);
  auto message = codec_.decode(mail.parcel.header, std::span(payloads.data(), count));
  if (message) {
    uint32_t checksum = 0;
    std::memcpy(&checksum, mail.parcel.header.data() + kChecksumAt, sizeof checksum);
    if (network_.on_message && !network_.on_message(mail.from, process_, *message, checksum))
      return;
    if (!copy.header.empty() && network_.comes_again(process_, *message))
      network_.send_again({mail.from, number_, mail.port, mail.peer}, std::move(copy));
    if (network_.chance(network_.faults.foreign) && is_foreign_possible(*message)) {
      wire::Message other = *message;
      other.envelope.run += 1;
      receiver.on_message(mail.port, mail.peer, std::move(other));
    }
    return receiver.on_message(mail.port, mail.peer, std::move(*message));
  }
  ++stats_.malformed;
  receiver.on_malformed(mail.port, mail.peer, message.error());
}

void SimTransport::shutdown(int64_t) { network_.gone(*this); }

}  // namespace downpour::sim
