// A network in virtual time: connections with latency and bandwidth that break and come again as
// those of shared/transport do, and faults on request. Messages go through the wire's codec.
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

/// One run of one process; never used again.
using ProcessNumber = uint32_t;

struct NetworkSpeed {
  int64_t latency_ns = 100 * kMicrosecond;
  int64_t jitter_ns = 50 * kMicrosecond;
  double bytes_per_s = 1.25e9;
};

/// Chances per message.
struct NetworkFaults {
  double drop = 0;
  double duplicate = 0;
  double delay = 0;
  int64_t delay_ns_max = 2 * kSecond;
  uint64_t queue_messages_max = 0;  // of a connection and direction; 0: as the real transport
  double foreign = 0;               // it comes once more, under the id of another run
  bool late_mail = false;  // half of what is under way when a connection breaks still arrives
};

struct NetworkCounts {
  uint64_t messages = 0, bytes = 0;
  uint64_t dropped = 0, duplicated = 0, delayed = 0, held = 0, lost_with_connection = 0, full = 0;
  uint64_t late = 0;
};

/// A message on its way, as frames.
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
  /// Told of every message as its receiver takes it: from, to, the message, the checksum of its
  /// header. False: it is lost.
  std::function<bool(ProcessNumber, ProcessNumber, const wire::Message&, uint32_t)> on_message;

  /// Asked about each message that its receiver takes for the first time: whether a copy of it
  /// arrives up to delay_ns_max later. Empty: none does.
  std::function<bool(ProcessNumber to, const wire::Message&)> comes_again;

  /// A transport of one process; `wake` is called when it has something to do. Must not outlive
  /// the network.
  std::unique_ptr<SimTransport> make_transport(ProcessNumber process, std::function<void()> wake);

  /// What `from` sends to `to` waits until it is let go (a partition, one way; a clogged
  /// connection).
  void hold(ProcessNumber from, ProcessNumber to);
  /// Lets it go. With `lose` the connection broke meanwhile and all that waited is gone.
  void let_go(ProcessNumber from, ProcessNumber to, bool lose);
  /// The connections between two processes break, with what is under way, and come again.
  void reset(ProcessNumber a, ProcessNumber b);
  /// What this process has bound leads to it, and all that are connected there dial anew.
  void lead_to(ProcessNumber process);
  /// The process has ended in the middle of what it does: nothing it sends from now on leaves.
  void mute(ProcessNumber process) { muted_.insert(process); }
  /// Pairs (client, server) that are connected, ascending.
  std::vector<std::pair<ProcessNumber, ProcessNumber>> connected() const;

 private:
  friend class SimTransport;
  struct Way {            // one direction of a connection
    int64_t last_ns = 0;  // nothing overtakes what arrives then
    uint64_t queued_bytes = 0;
    uint64_t queued_messages = 0;
    std::deque<Parcel> held;
  };
  struct Connection {
    uint64_t id = 0;
    SimTransport* client = nullptr;
    SimTransport* server = nullptr;  // null: not up
    std::string endpoint;
    transport::PeerId client_peer{}, server_peer{};
    transport::PortId server_port{};
    uint32_t life = 0;  // rises when it breaks
    int64_t backoff_ns = 0;
    Way to_server, to_client;
  };

  void dial(uint64_t id, int64_t delay_ns);
  void try_connect(uint64_t id);
  void broken(Connection& connection, bool dial_again);
  void transmit(Connection& connection, bool to_server, Parcel&& parcel);
  /// Where a message goes even after its connection has broken.
  struct Destination {
    ProcessNumber from = 0;
    uint64_t to = 0;  // number of a transport, which may be gone by then
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
  std::map<std::string, std::vector<Binding>> bound_;  // the last one has the address
  std::set<std::pair<ProcessNumber, ProcessNumber>> held_;
  std::set<ProcessNumber> muted_;
  std::map<uint64_t, SimTransport*> transports_;  // by number
  uint64_t last_transport_ = 0;
};

/// As transport.h says; one process's end of the network. A process may have several.
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
  /// What the newest poll() was asked to wait.
  int64_t timeout_ns() const { return timeout_ns_; }
  bool has_mail() const { return !inbox_.empty(); }
  /// Its process had nothing to do for so long.
  void waited(int64_t ns) { stats_.waited_ns += std::max<int64_t>(0, ns); }

 private:
  friend class SimNetwork;
  struct Peer {
    transport::PortId port{};
    uint64_t connection = 0;
    bool client = false;
    std::deque<Parcel> outbox;  // before the connection stands
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
