// CURVE over real sockets: which peers a port with keys admits, and what is visible on the wire.
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <zmq.h>

#include <catch2/catch.hpp>

#include "shared/base/units.h"
#include "shared/transport/key_folder.h"
#include "shared/transport/transport.h"
#include "shared/transport/zmq_curve.h"
#include "shared/wire/messages.h"
#include "tests/support/scratch_dir.h"

namespace downpour::transport {
namespace {

using downpour::testing::ScratchDir;
using Clock = std::chrono::steady_clock;

/// A list of keys, and the keyrings of its processes.
struct Cluster {
  AllowList list;
  std::shared_ptr<Keyring> make(wire::Role role, const std::string& name) {
    const KeyPair pair = make_key_pair().value();
    list.add({role, name, pair.public_key});
    return std::make_shared<Keyring>(pair, AllowList{});
  }
  /// Makes the keyring of a chief that admits the keys made so far, and its own.
  std::shared_ptr<Keyring> make_chief() {
    auto chief = make(wire::Role::kChief, "chief");
    chief->replace(list);
    return chief;
  }
  std::shared_ptr<Keyring> stranger() {
    return std::make_shared<Keyring>(make_key_pair().value(), AllowList{});
  }
};

wire::Message sealed_with(uint32_t epochs, std::string text = {}) {
  wire::Message message{.body = wire::Sealed{epochs}};
  if (!text.empty()) {
    text.resize(64);
    message.body = wire::Stop{.code = 1, .reason = std::move(text)};
  }
  return message;
}

struct CurveNode {
  explicit CurveNode(std::shared_ptr<Keyring> keyring)
      : transport(make_zmq_transport({.keyring = std::move(keyring)})) {}
  void poll(int64_t timeout_ns = 10 * kMillisecond) {
    transport->poll(timeout_ns, 1000,
                    {.on_message =
                         [&](PortId, PeerId peer, wire::Message&&) {
                           ++received;
                           from = peer;
                         },
                     .on_malformed = [&](PortId, PeerId, const Error&) { ++malformed; }});
  }
  /// Opens a port and returns its endpoint.
  std::string listen() { return transport->endpoint(transport->bind("tcp://127.0.0.1:*").value()); }
  std::unique_ptr<Transport> transport;
  int received = 0;
  int malformed = 0;
  PeerId from{};
};

bool until(const std::function<bool()>& condition, int seconds = 10) {
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
  }
  return true;
}

/// Sends a message to `to`, which listens at `endpoint`, and waits until it has arrived. Returns
/// the peer to which it was sent.
PeerId arrive(CurveNode& from, CurveNode& to, const std::string& endpoint) {
  const PeerId peer = from.transport->connect(endpoint).value();
  const int before = to.received;
  REQUIRE(from.transport->send(peer, sealed_with(1)) == SendStatus::kSent);
  REQUIRE(until([&] {
    from.poll();
    to.poll();
    return to.received > before;
  }));
  CHECK(to.received == before + 1);
  return peer;
}

/// Returns true if a message of `client` arrives at `server`, which listens at `endpoint`. A
/// refusal causes no error here. It is concluded if a later message of `witness`, which is
/// admitted, has arrived and the client's has not.
bool reaches(CurveNode& client, CurveNode& server, const std::string& endpoint,
             CurveNode& witness) {
  const auto peer = client.transport->connect(endpoint);
  if (!peer) return false;
  const int before = server.received;
  REQUIRE(client.transport->send(*peer, sealed_with(1)) == SendStatus::kSent);
  for (int i = 0; i < 30; ++i) {
    client.poll();
    server.poll();
    if (server.received > before) return true;
  }
  const PeerId friendly = witness.transport->connect(endpoint).value();
  REQUIRE(witness.transport->send(friendly, sealed_with(2)) == SendStatus::kSent);
  REQUIRE(until([&] {
    witness.poll();
    client.poll();
    server.poll();
    return server.received > before;
  }));
  witness.transport->close(friendly);
  return server.received > before + 1;
}

TEST_CASE("a port with keys reports the role and the name of a peer by its key", "[curve]") {
  Cluster cluster;
  const auto worker = cluster.make(wire::Role::kWorker, "worker-3");
  const auto ps = cluster.make(wire::Role::kPs, "ps-0");
  const auto own = cluster.make_chief();
  CurveNode chief(own);
  const PortId port = chief.transport->bind("tcp://127.0.0.1:*").value();
  const std::string endpoint = chief.transport->endpoint(port);
  CHECK_THAT(endpoint, Catch::EndsWith("?key=" + hex_of(own->own().public_key)));
  CurveNode first(worker);
  CurveNode second(ps);
  const PeerId to = arrive(first, chief, endpoint);
  CHECK(first.transport->identity(to).key == hex_of(own->own().public_key));
  CHECK(chief.transport->identity(chief.from).role == wire::Role::kWorker);
  CHECK(chief.transport->identity(chief.from).name == "worker-3");
  CHECK(chief.transport->identity(chief.from).key == hex_of(worker->own().public_key));
  arrive(second, chief, endpoint);
  CHECK(chief.transport->identity(chief.from).role == wire::Role::kPs);
}

TEST_CASE("a port with keys refuses a random key, and a client refuses another listener's key",
          "[curve]") {
  Cluster cluster;
  const auto worker = cluster.make(wire::Role::kWorker, "worker");
  const auto own = cluster.make_chief();
  CurveNode chief(own);
  const std::string endpoint = chief.listen();
  CurveNode witness(worker);
  CurveNode stranger(cluster.stranger());
  CHECK(!reaches(stranger, chief, endpoint, witness));
  CurveNode mistaken(worker);
  const std::string other = with_key(split_key(endpoint)->endpoint, make_key_pair()->public_key);
  CHECK(mistaken.transport->connect(other));
  const PeerId peer = mistaken.transport->connect(other).value();
  REQUIRE(mistaken.transport->send(peer, sealed_with(1)) == SendStatus::kSent);
  const int before = chief.received;
  CHECK(reaches(witness, chief, endpoint, witness));
  CHECK(chief.received == before + 1);
}

TEST_CASE("a key removed from the list is refused, and its connections are dropped", "[curve]") {
  const ScratchDir scratch;
  const std::string folder = scratch / "keys";
  REQUIRE(make_keys(folder, one_key_a_role()));
  REQUIRE(make_keys(folder, {{wire::Role::kWorker, "worker-1"}}));
  CurveNode chief(Keyring::open(folder, wire::Role::kChief, UINT32_MAX).value());
  const std::string endpoint = chief.listen();
  CurveNode revoked(Keyring::open(folder, wire::Role::kWorker, 1).value());
  CurveNode again(Keyring::open(folder, wire::Role::kWorker, 1).value());
  CurveNode witness(Keyring::open(folder, wire::Role::kWorker, 0).value());
  const PeerId to = arrive(revoked, chief, endpoint);
  const PeerId peer = chief.from;
  REQUIRE(revoke_key(folder, "worker-1"));
  // The next message to it returns kGone, without a restart of the chief.
  REQUIRE(until([&] {
    chief.poll();
    return chief.transport->send(peer, sealed_with(1)) == SendStatus::kGone;
  }));
  const int before = chief.received;
  REQUIRE(revoked.transport->send(to, sealed_with(1)) == SendStatus::kSent);
  CHECK(!reaches(again, chief, endpoint, witness));
  CHECK(chief.received == before + 1);  // only that of the witness
}

TEST_CASE("PLAIN and NULL peers are refused by a port with keys", "[curve]") {
  Cluster cluster;
  const auto worker = cluster.make(wire::Role::kWorker, "worker");
  const auto own = cluster.make_chief();
  CurveNode chief(own);
  const std::string endpoint = chief.listen();
  const std::string bare = split_key(endpoint)->endpoint;
  void* const context = zmq_ctx_new();
  const bool plain = GENERATE(false, true);
  void* const socket = zmq_socket(context, ZMQ_DEALER);
  const int linger = 0;
  zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
  if (plain) {
    zmq_setsockopt(socket, ZMQ_PLAIN_USERNAME, "chief", 5);
    zmq_setsockopt(socket, ZMQ_PLAIN_PASSWORD, "chief", 5);
  }
  REQUIRE(zmq_connect(socket, bare.c_str()) == 0);
  zmq_send(socket, "anything", 8, ZMQ_DONTWAIT);
  for (int i = 0; i < 30; ++i) chief.poll();
  CurveNode witness(worker);
  arrive(witness, chief, endpoint);
  CHECK(chief.malformed == 0);  // not even one of its frames arrived
  zmq_close(socket);
  zmq_ctx_term(context);
}

TEST_CASE("a process with keys and one without do not connect, and the error gives the reason",
          "[curve]") {
  Cluster cluster;
  CurveNode with(cluster.stranger());
  CurveNode without(nullptr);
  const auto no_key = with.transport->connect("tcp://127.0.0.1:7000");
  REQUIRE(!no_key);
  CHECK(no_key.error().id == "DP-2711");
  const auto no_ring =
      without.transport->connect(with_key("tcp://127.0.0.1:7000", make_key_pair()->public_key));
  REQUIRE(!no_ring);
  CHECK(no_ring.error().id == "DP-2711");
}

TEST_CASE("the test at the start detects a port that admits every key", "[curve]") {
  SharedContext context(1, 64);
  const KeyPair own = make_key_pair().value();
  const auto bound = [&](zmq::socket_t& socket) {
    socket.set(zmq::sockopt::linger, 0);
    socket.bind("tcp://127.0.0.1:*");
    return socket.get(zmq::sockopt::last_endpoint);
  };
  const auto keyring = std::make_shared<Keyring>(own, AllowList{});
  zmq::socket_t safe(context.zmq(), zmq::socket_type::router);
  REQUIRE(make_curve_server(context, safe, keyring));
  CHECK(check_refuses_strangers(context, bound(safe), own.public_key));
  // Without a ZAP domain CURVE admits every peer that knows the server's key.
  zmq::context_t bare;
  zmq::socket_t open(bare, zmq::socket_type::router);
  open.set(zmq::sockopt::curve_server, true);
  std::array<char, 41> text{};
  zmq_z85_encode(text.data(), own.secret_key.data(), own.secret_key.size());
  open.set(zmq::sockopt::curve_secretkey, text.data());
  const auto result = check_refuses(bare, bound(open), own.public_key, make_key_pair().value());
  REQUIRE(!result);
  CHECK(result.error().code == ErrorCode::kPermission);
}

/// Forwards one connection and records the bytes of both directions.
class Tap {
 public:
  explicit Tap(uint16_t to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = address(0);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0);
    REQUIRE(::listen(listener_, 1) == 0);
    socklen_t size = sizeof(at);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Tap() { stop(); }
  /// Cuts the connection and returns the recorded bytes.
  std::string stop() {
    if (!thread_.joinable()) return seen_;
    ::shutdown(listener_, SHUT_RDWR);
    ::shutdown(near_, SHUT_RDWR);
    ::shutdown(far_, SHUT_RDWR);
    thread_.join();
    for (const int fd : {listener_, near_.load(), far_.load()}) ::close(fd);
    return seen_;
  }
  uint16_t port() const { return port_; }

 private:
  static sockaddr_in address(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    return at;
  }
  void run() {
    near_ = ::accept(listener_, nullptr, nullptr);
    far_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in at = address(to_);
    if (near_ < 0 || ::connect(far_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0)
      return;
    std::string there;
    std::thread back([&] { copy(far_, near_, there); });
    copy(near_, far_, seen_);
    back.join();
    seen_ += there;
  }
  static void copy(int from, int to, std::string& seen) {
    std::array<char, 4096> bytes{};
    for (ssize_t got = 0; (got = ::read(from, bytes.data(), bytes.size())) > 0;) {
      seen.append(bytes.data(), size_t(got));
      if (::write(to, bytes.data(), size_t(got)) != got) return;
    }
  }
  uint16_t to_ = 0;
  uint16_t port_ = 0;
  int listener_ = -1;
  std::atomic<int> near_{-1}, far_{-1};
  std::string seen_;
  std::thread thread_;
};

TEST_CASE("messages between processes with keys are not visible on the wire", "[curve]") {
  const std::string secret = "the-weights-of-the-model-0123456789-abcdefghijklmnopqrstuvwxyz!!";
  const auto seen = [&](bool keys) {
    Cluster cluster;
    const auto worker = cluster.make(wire::Role::kWorker, "worker");
    const auto own = cluster.make_chief();
    CurveNode chief(keys ? own : nullptr);
    const std::string endpoint = chief.listen();
    const std::string bare = split_key(endpoint)->endpoint;
    Tap tap(uint16_t(std::stoi(bare.substr(bare.rfind(':') + 1))));
    const std::string through = str("tcp://127.0.0.1:", tap.port());
    CurveNode client(keys ? worker : nullptr);
    const auto peer =
        client.transport->connect(keys ? with_key(through, own->own().public_key) : through);
    REQUIRE(peer);
    REQUIRE(client.transport->send(*peer, sealed_with(0, secret)) == SendStatus::kSent);
    REQUIRE(until([&] {
      client.poll();
      chief.poll();
      return chief.received == 1;
    }));
    REQUIRE(chief.transport->send(chief.from, sealed_with(0, secret)) == SendStatus::kSent);
    REQUIRE(until([&] {
      client.poll();
      return client.received == 1;
    }));
    return tap.stop();
  };
  const std::string plain = seen(false);
  // proves that the tap records readable messages
  CHECK(plain.find(secret.substr(0, 40)) != std::string::npos);
  const std::string hidden = seen(true);
  CHECK(hidden.size() > 200);
  CHECK(hidden.find(secret.substr(0, 8)) == std::string::npos);
}

TEST_CASE("the largest frames pass between processes with keys, in both directions", "[curve]") {
  Cluster cluster;
  const auto worker = cluster.make(wire::Role::kWorker, "worker");
  const auto own = cluster.make(wire::Role::kPs, "ps");
  own->replace(cluster.list);
  CurveNode ps(own);
  CurveNode client(worker);
  const PeerId to =
      client.transport
          ->connect(ps.transport->endpoint(ps.transport->bind("tcp://127.0.0.1:*").value()))
          .value();
  const auto message_of = [](uint64_t bytes) {
    return wire::Message{.body = wire::PullReply{},
                         .values = Bytes::of(std::vector<uint8_t>(bytes, uint8_t(bytes)))};
  };
  // Sizes around the one at which the frame on the wire exceeds 1 MiB, because CURVE adds 33 bytes.
  for (const uint64_t less : {64, 36, 32, 4, 0}) {
    CAPTURE(less);
    const uint64_t bytes = wire::kFrameBytesMax - less;
    const int before = ps.received;
    REQUIRE(client.transport->send(to, message_of(bytes)) == SendStatus::kSent);
    REQUIRE(until([&] {
      client.poll();
      ps.poll();
      return ps.received == before + 1;
    }));
    REQUIRE(ps.transport->send(ps.from, message_of(bytes)) == SendStatus::kSent);
    REQUIRE(until([&] {
      client.poll();
      ps.poll();
      return client.received == before + 1;
    }));
  }
}

}  // namespace
}  // namespace downpour::transport
