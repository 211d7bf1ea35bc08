// SimNetwork and SimTransport: a network in virtual time. Its connections have latency and
// bandwidth, and break and reconnect like those of shared/transport. It can inject faults. All
// messages pass through the wire codec.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/transport/transport.h"
#include "shared/wire/codec.h"
#include "tools/sim/scheduler.h"

namespace downpour::sim {

/// Identifies one run of one process. Numbers are never reused.
using ProcessNumber = uint32_t;

struct NetworkSpeed {
  int64_t latency_ns = 100 * kMicrosecond;
  int64_t jitter_ns = 50 * kMicrosecond;
  double bytes_per_s = 1.25e9;
};

/// The current faults of the network. Rates are probabilities per message.
struct NetworkFaults {
  double drop = 0;
  double duplicate = 0;
  double delay = 0;
  int64_t delay_ns_max = 2 * kSecond;
  uint64_t queue_messages_max = 0;  // per connection and direction; 0: as the real transport
  double foreign = 0;               // the message arrives again under the id of another run
  bool late_mail = false;  // half of the messages under way in a broken connection still arrive
};

struct NetworkCounts {
  uint64_t messages = 0, bytes = 0;
  uint64_t dropped = 0, duplicated = 0, delayed = 0, held = 0, lost_with_connection = 0, full = 0;
  uint64_t late = 0;
};

/// A message under way, as frames.
struct Parcel {
  std::vector<uint8_t> header;
  Bytes keys, values;
  uint64_t bytes() const { return header.size() + keys.size() + values.size(); }
};

class SimTransport;

class SimNetwork {
 public:
  SimNetwork(Scheduler& scheduler, uint64_t seed) : scheduler_(scheduler), rng_(seed) {}

  NetworkSpeed speed;
  NetworkFaults faults;
  const NetworkCounts& counts() const { return counts_; }
  /// Called for every message when its receiver takes it, with sender, receiver, message and the
  /// checksum of its header. If it returns false, the message is lost.
  std::function<bool(ProcessNumber, ProcessNumber, const wire::Message&, uint32_t)> on_message;

  /// Called for each message that its receiver takes for the first time. Returns whether a copy of
  /// the message arrives up to delay_ns_max later. If empty, there are no copies.
  std::function<bool(ProcessNumber to, const wire::Message&)> comes_again;

  /// Makes a transport of one process. `wake` is called when the process has something to do. The
  /// transport must not outlive the network.
  std::unique_ptr<SimTransport> make_transport(ProcessNumber process, std::function<void()> wake);

  /// Holds back all messages from `from` to `to` until let_go(): one direction of a network
  /// partition, or a clogged connection.
  void hold(ProcessNumber from, ProcessNumber to);
  /// Delivers the messages that hold() holds back. With `lose` the connection breaks instead, and
  /// these messages are lost.
  void let_go(ProcessNumber from, ProcessNumber to, bool lose);
  /// Breaks the connections between two processes. Messages under way are lost, and the clients
  /// reconnect.
  void reset(ProcessNumber a, ProcessNumber b);
  /// Makes the endpoints that this process has bound lead to it again. Clients that are connected
  /// there reconnect.
  void lead_to(ProcessNumber process);
  /// Discards all messages that the process sends from now on, because it is about to end.
  void mute(ProcessNumber process) { muted_.insert(process); }
  /// Returns all connected pairs (client, server) in ascending order.
  std::vector<std::pair<ProcessNumber, ProcessNumber>> connected() const;

 private:
  friend class SimTransport;
  struct Way {            // one direction of a connection
    int64_t last_ns = 0;  // latest arrival so far; later messages do not overtake it
    uint64_t queued_bytes = 0;
    uint64_t queued_messages = 0;
    std::deque<Parcel> held;
  };
  struct Connection {
    uint64_t id = 0;
    SimTransport* client = nullptr;
    SimTransport* server = nullptr;  // null: not connected
    std::string endpoint;
    transport::PeerId client_peer{}, server_peer{};
    transport::PortId server_port{};
    uint32_t life = 0;  // increases each time the connection breaks
    int64_t backoff_ns = 0;
    Way to_server, to_client;
  };

  void dial(uint64_t id, int64_t delay_ns);
  void try_connect(uint64_t id);
  void broken(Connection& connection, bool dial_again);
  void transmit(Connection& connection, bool to_server, Parcel&& parcel);
  /// The destination of a message that arrives even if its connection has broken.
  struct Destination {
    ProcessNumber from = 0;
    uint64_t to = 0;  // number of a transport, which may no longer exist
    transport::PortId port{};
    transport::PeerId peer{};
  };
  void arrive_at(const Connection& connection, bool to_server, int64_t when_ns, Parcel&& parcel,
                 bool counted);
  void send_again(const Destination& destination, Parcel&& parcel);
  void arrive_late(const Destination& destination, Parcel&& parcel);
  void arrive(Connection& connection, bool to_server, Parcel&& parcel, bool counted);
  void close(uint64_t id);
  void gone(SimTransport& transport);
  bool chance(double p) { return p > 0 && rng_.uniform64() < p; }

  Scheduler& scheduler_;
  Rng rng_;
  NetworkCounts counts_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Connection> connections_;
  struct Binding {
    SimTransport* transport = nullptr;
    transport::PortId port{};
    bool operator==(const Binding&) const = default;
  };
  std::map<std::string, std::vector<Binding>> bound_;  // the endpoint leads to the last one
  std::set<std::pair<ProcessNumber, ProcessNumber>> held_;
  std::set<ProcessNumber> muted_;
  std::map<uint64_t, SimTransport*> transports_;  // by number
  uint64_t last_transport_ = 0;
};

/// A process's end of the network; implements transport.h. A process may have several.
class SimTransport final : public transport::Transport {
 public:
  SimTransport(SimNetwork& network, ProcessNumber process, std::function<void()> wake);
  ~SimTransport() override;

  Result<transport::PortId> bind(const std::string& endpoint) override;
  std::string endpoint(transport::PortId port) const override;
  Result<transport::PeerId> connect(const std::string& endpoint) override;
  transport::PortId port_of(transport::PeerId peer) const override;
  transport::SendStatus send(transport::PeerId peer, wire::Message&& message) override;
  void close(transport::PeerId peer) override;
  void close(transport::PortId port) override;
  size_t poll(int64_t timeout_ns, size_t messages_max,
              const transport::Receiver& receiver) override;
  void wake() override { wake_(); }
  transport::TransportStats stats() const override { return stats_; }
  void shutdown(int64_t linger_ns) override;

  ProcessNumber process() const { return process_; }
  uint64_t number() const { return number_; }
  /// Returns the timeout of the last poll().
  int64_t timeout_ns() const { return timeout_ns_; }
  bool has_mail() const { return !inbox_.empty(); }
  /// Records that the process was idle for this time.
  void waited(int64_t ns) { stats_.waited_ns += std::max<int64_t>(0, ns); }

 private:
  friend class SimNetwork;
  struct Peer {
    transport::PortId port{};
    uint64_t connection = 0;
    bool client = false;
    std::deque<Parcel> outbox;  // messages that wait for the connection
  };
  struct Mail {
    ProcessNumber from = 0;
    transport::PortId port{};
    transport::PeerId peer{};
    uint64_t connection = 0;
    bool counted = false;
    Parcel parcel;
  };
  transport::PeerId add_peer(transport::PortId port, uint64_t connection, bool client);
  void receive(Mail& mail, const transport::Receiver& receiver);

  SimNetwork& network_;
  ProcessNumber process_;
  uint64_t number_;
  std::function<void()> wake_;
  wire::Codec codec_;
  transport::TransportStats stats_;
  uint32_t last_port_ = 0;
  uint64_t last_peer_ = 0;
  std::map<transport::PortId, std::string> ports_;
  std::map<transport::PeerId, Peer> peers_;
  std::deque<Mail> inbox_;
  int64_t timeout_ns_ = 0;
};

}  // namespace downpour::sim
