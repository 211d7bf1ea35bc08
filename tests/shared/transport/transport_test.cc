#include "shared/transport/transport.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "shared/base/units.h"
#include "shared/transport/outbox.h"
#include "shared/wire/codec.h"
#include "tests/shared/transport/mailbox.h"
#include "tests/shared/transport/raw_peer.h"

namespace downpour::transport {
namespace {

using Clock = std::chrono::steady_clock;

std::string ipc_endpoint(const char* name) {
  return str("ipc:///tmp/downpour-test-", ::getpid(), "-", name);
}
std::string path_of(const std::string& ipc) { return ipc.substr(6); }

wire::Message sealed(uint32_t epochs) { return {.body = wire::Sealed{epochs}}; }
uint32_t epochs_of(const wire::Message& message) {
  return std::get<wire::Sealed>(message.body).epochs;
}

wire::Message predictions(size_t floats, uint32_t batch = 0) {
  return {.envelope = {.run = 1, .view = {1, 2}, .request = RequestId(batch + 1)},
          .body = wire::PredictReport{.batch = batch},
          .values = Bytes::of(std::vector<float>(floats, 0.5F))};
}

/// Returns every message to its sender until an empty Sealed arrives.
void echo(Transport& transport) {
  bool stop = false;
  while (!stop) {
    transport.poll(kSecond, 100,
                   {.on_message =
                        [&](PortId, PeerId peer, wire::Message&& message) {
                          const auto* last = std::get_if<wire::Sealed>(&message.body);
                          if (last != nullptr && last->epochs == UINT32_MAX) stop = true;
                          while (transport.send(peer, std::move(message)) == SendStatus::kFull)
                            std::this_thread::yield();
                        },
                    .on_malformed = {}});
  }
}

TEST_CASE("requests and answers cross threads with their payloads, over every kind of endpoint",
          "[transport]") {
  const std::string wanted =
      GENERATE(as<std::string>(), "inproc://echo", "ipc", "tcp://127.0.0.1:*");
  const std::string given = wanted == "ipc" ? ipc_endpoint("echo") : wanted;
  Mailbox client;
  Mailbox echoing;
  const std::string endpoint = bound(echoing, given);
  CHECK_THAT(endpoint, !Catch::EndsWith("*"));
  std::thread thread([&] { echo(*echoing.transport); });
  const PeerId peer = connected(client, endpoint);
  constexpr uint32_t kCount = 200;
  for (uint32_t i = 0; i < kCount; ++i) {
    wire::Message message = predictions(1 + 100 * i, i);
    REQUIRE(client.wait_until([&] {
      const SendStatus status = client.transport->send(peer, std::move(message));
      return status == SendStatus::kSent;
    }));
  }
  CHECK(client.wait(kCount));
  for (uint32_t i = 0; i < client.received.size(); ++i) {
    const Received& got = client.received[i];
    REQUIRE(got.peer == peer);
    REQUIRE(got.port == client.transport->port_of(peer));
    REQUIRE(std::get<wire::PredictReport>(got.message.body).batch == i);  // in order
    REQUIRE(got.message.envelope == predictions(1, i).envelope);
    REQUIRE(got.message.values.size() == 4 * (1 + 100 * i));
    REQUIRE(got.message.values.load<float>(100 * i) == 0.5F);
  }
  CHECK(client.transport->stats().sent_messages == kCount);
  CHECK(client.transport->stats().received_messages == kCount);
  REQUIRE(client.transport->send(peer, sealed(UINT32_MAX)) == SendStatus::kSent);
  CHECK(client.wait(kCount + 1));
  thread.join();
}

TEST_CASE("two ports of one transport are connected by a queue that passes the same memory",
          "[transport]") {
  Mailbox node;
  const Result<PortId> port = node.transport->bind("tcp://127.0.0.1:*");
  REQUIRE(port);
  const PeerId peer = connected(node, node.transport->endpoint(*port));
  wire::Message message = predictions(1000);
  const uint8_t* memory = message.values.data();
  REQUIRE(node.transport->send(peer, std::move(message)) == SendStatus::kSent);
  REQUIRE(node.poll(0) == 1);
  CHECK(node.received[0].port == *port);
  CHECK(node.received[0].message.values.data() == memory);
  REQUIRE(node.transport->send(node.received[0].peer, sealed(7)) == SendStatus::kSent);
  REQUIRE(node.poll(0) == 1);
  CHECK(node.received[1].peer == peer);
  CHECK(node.received[1].port == node.transport->port_of(peer));
  node.transport->close(peer);
  CHECK(node.transport->send(node.received[0].peer, sealed(8)) == SendStatus::kGone);
  CHECK(node.transport->send(peer, sealed(8)) == SendStatus::kGone);
}

TEST_CASE("inproc passes pointers, and frees messages that were not received", "[transport]") {
  Mailbox a;
  Mailbox b;
  const PeerId peer = connected(b, "inproc://pointers");  // before any port is bound there
  wire::Message message = predictions(1000);
  const uint8_t* memory = message.values.data();
  REQUIRE(b.transport->send(peer, std::move(message)) == SendStatus::kSent);
  bound(a, "inproc://pointers");
  REQUIRE(a.wait(1));
  CHECK(a.received[0].message.values.data() == memory);
  // checked by leak checkers
  REQUIRE(b.transport->send(peer, predictions(1000)) == SendStatus::kSent);
}

TEST_CASE("send returns kFull if a peer accepts nothing, and poll ends when there is room again",
          "[transport]") {
  const std::string wanted =
      GENERATE(as<std::string>(), "inproc://full", "ipc", "tcp://127.0.0.1:*");
  Mailbox slow;
  Mailbox sender({.send_bytes_max = 8 * kMiB});
  const std::string endpoint = bound(slow, wanted == "ipc" ? ipc_endpoint("full") : wanted);
  const PeerId peer = connected(sender, endpoint);
  uint32_t sent = 0;
  wire::Message message = predictions(200'000, 0);
  for (;; ++sent) {
    REQUIRE(sent < 1000);
    message = predictions(200'000, sent);
    if (sender.transport->send(peer, std::move(message)) != SendStatus::kSent) {
      // The kernel and the queue of the other side may have made room by now.
      sender.poll(200 * kMillisecond);
      if (sender.transport->send(peer, std::move(message)) != SendStatus::kSent) break;
    }
  }
  REQUIRE(message.values.size() == 800'000);  // unchanged by send()
  CHECK(sent >= 8);
  std::thread thread([&] { slow.wait(sent); });
  const auto before = Clock::now();
  CHECK(sender.poll(10 * kSecond) == 0);
  CHECK(Clock::now() - before < std::chrono::seconds(5));
  CHECK(sender.transport->send(peer, std::move(message)) == SendStatus::kSent);
  thread.join();
  CHECK(slow.wait(sent + 1));
}

TEST_CASE("messages sent before the other side exists arrive later, also after its restart",
          "[transport]") {
  Mailbox client;
  std::string endpoint = ipc_endpoint("later");
  if (GENERATE(true, false)) {
    Mailbox probe;
    // this port is free as soon as the probe is destroyed
    endpoint = bound(probe, "tcp://127.0.0.1:*");
  }
  const PeerId peer = connected(client, endpoint);
  for (uint32_t i = 0; i < 10; ++i)
    REQUIRE(client.transport->send(peer, sealed(i)) == SendStatus::kSent);
  CHECK(client.transport->stats().sent_messages == 10);
  std::vector<PeerId> seen;
  for (uint32_t life = 0; life < 2; ++life) {
    Mailbox node;
    REQUIRE(node.wait_until([&] { return node.transport->bind(endpoint).has_value(); }));
    std::atomic<bool> done = false;
    std::thread thread([&] { client.wait_until([&] { return done.load(); }); });
    CHECK(node.wait(1));
    done = true;
    client.transport->wake();
    thread.join();
    if (life == 0) CHECK(node.wait(10));
    CHECK(epochs_of(node.received[0].message) == (life == 0 ? 0 : 100));
    const PeerId back = node.received[0].peer;
    const size_t before = client.received.size();
    REQUIRE(node.transport->send(back, sealed(50)) == SendStatus::kSent);
    CHECK(client.wait(before + 1));
    if (life == 1) break;
    node.transport.reset();
    // A message may be lost with the connection, but not one sent after the loss is known.
    client.poll(300 * kMillisecond);
    REQUIRE(client.transport->send(peer, sealed(100)) == SendStatus::kSent);
  }
}

TEST_CASE("a bound port learns that a peer is gone when it sends", "[transport]") {
  Mailbox node;
  const std::string endpoint = bound(node, "tcp://127.0.0.1:*");
  {
    Mailbox client;
    REQUIRE(client.transport->send(connected(client, endpoint), sealed(1)) == SendStatus::kSent);
    client.poll(50 * kMillisecond);
    REQUIRE(node.wait(1));
    client.transport->shutdown(kSecond);
  }
  const PeerId peer = node.received[0].peer;
  CHECK(
      node.wait_until([&] { return node.transport->send(peer, sealed(2)) == SendStatus::kGone; }));
  CHECK(node.transport->send(PeerId(12345), sealed(2)) == SendStatus::kGone);
}

TEST_CASE("wake ends a poll from another thread, and an earlier wake is not lost", "[transport]") {
  Mailbox node;
  bound(node, "tcp://127.0.0.1:*");
  node.transport->wake();
  node.transport->wake();
  const auto before = Clock::now();
  CHECK(node.poll(10 * kSecond) == 0);
  std::thread thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    node.transport->wake();
  });
  CHECK(node.poll(-1) == 0);
  thread.join();
  CHECK(Clock::now() - before < std::chrono::seconds(5));
  const auto then = Clock::now();
  CHECK(node.poll(30 * kMillisecond) == 0);  // no wake-up is pending
  CHECK(Clock::now() - then >= std::chrono::milliseconds(29));
}

TEST_CASE("poll delivers at most the requested number and keeps the rest", "[transport]") {
  Mailbox node;
  Mailbox client;
  const PeerId peer = connected(client, bound(node, "inproc://bounded"));
  for (uint32_t i = 0; i < 50; ++i)
    REQUIRE(client.transport->send(peer, sealed(i)) == SendStatus::kSent);
  CHECK(node.poll(kSecond, 20) == 20);
  CHECK(node.poll(kSecond, 20) == 20);
  CHECK(node.poll(kSecond, 20) == 10);
  for (uint32_t i = 0; i < 50; ++i) CHECK(epochs_of(node.received[i].message) == i);
}

TEST_CASE("one noisy peer does not keep the others waiting", "[transport]") {
  Mailbox node;
  Mailbox noisy;
  Mailbox quiet;
  const PeerId much = connected(noisy, bound(node, "inproc://noisy"));
  const PeerId little = connected(quiet, bound(node, "inproc://quiet"));
  for (uint32_t i = 0; i < 500; ++i)
    REQUIRE(noisy.transport->send(much, sealed(i)) == SendStatus::kSent);
  REQUIRE(quiet.transport->send(little, sealed(1000)) == SendStatus::kSent);
  node.poll(kSecond, 100);
  const auto from_quiet = [](const Received& got) { return epochs_of(got.message) == 1000; };
  CHECK(std::any_of(node.received.begin(), node.received.end(), from_quiet));
}

TEST_CASE("a callback may send, connect and close", "[transport]") {
  Mailbox node;
  const Result<PortId> port = node.transport->bind("inproc://reentrant");
  REQUIRE(port);
  Mailbox client;
  const PeerId peer = connected(client, "inproc://reentrant");
  for (uint32_t i = 0; i < 3; ++i)
    REQUIRE(client.transport->send(peer, sealed(i)) == SendStatus::kSent);
  size_t calls = 0;
  node.transport->poll(
      kSecond, 10,
      {.on_message =
           [&](PortId at, PeerId from, wire::Message&& message) {
             ++calls;
             CHECK(node.transport->send(from, std::move(message)) == SendStatus::kSent);
             CHECK(node.transport->connect("inproc://elsewhere"));
             node.transport->close(at);
           },
       .on_malformed = {}});
  CHECK(calls == 1);
  CHECK(node.transport->endpoint(*port).empty());
}

TEST_CASE("ports that cannot be bound report the reason", "[transport]") {
  Mailbox node;
  const auto code = [&](const std::string& endpoint) {
    const Result<PortId> port = node.transport->bind(endpoint);
    REQUIRE_FALSE(port);
    return port.error().code;
  };
  Mailbox other;
  const std::string taken = bound(other, "tcp://127.0.0.1:*");
  const Result<PortId> again = node.transport->bind(taken);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kUnavailable);
  CHECK(again.error().what == str("port ", taken.substr(6), " is in use"));
  CHECK_FALSE(again.error().hint.empty());
  const std::string socket = bound(other, ipc_endpoint("taken"));
  CHECK(code(socket) == ErrorCode::kUnavailable);  // ZeroMQ itself would replace it
  CHECK(code(bound(other, "inproc://taken")) == ErrorCode::kUnavailable);
  CHECK(code("ipc:///no/such/folder/x") == ErrorCode::kCannotCreate);
  CHECK(code("tcp://203.0.113.7:5555") == ErrorCode::kConfig);
  CHECK(code("tcp://not an address:5555") == ErrorCode::kConfig);
  CHECK(code("nonsense") == ErrorCode::kConfig);
  CHECK_FALSE(node.transport->connect("tcp://host"));
}

TEST_CASE("an ipc socket is removed after close, and one left by a crash is replaced",
          "[transport]") {
  const std::string endpoint = ipc_endpoint("left");
  Mailbox node;
  const Result<PortId> port = node.transport->bind(endpoint);
  REQUIRE(port);
  CHECK(std::filesystem::exists(path_of(endpoint)));
  node.transport->close(*port);
  CHECK(node.wait_until([&] { return !std::filesystem::exists(path_of(endpoint)); }));
  // bound and closed: the file stays, as after kill -9
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  struct {
    uint16_t family = AF_UNIX;
    char path[108] = {};
  } address;
  std::strncpy(address.path, path_of(endpoint).c_str(), sizeof(address.path) - 1);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ::close(fd);
  bound(node, endpoint);
}

TEST_CASE("shutdown waits until sent messages have left", "[transport]") {
  Mailbox node;
  const std::string endpoint = bound(node, "tcp://127.0.0.1:*");
  std::thread thread([&] {
    Mailbox client;
    const PeerId peer = connected(client, endpoint);
    for (uint32_t i = 0; i < 5; ++i)
      CHECK(client.transport->send(peer, predictions(200'000, i)) == SendStatus::kSent);
    client.transport->shutdown(5 * kSecond);
    CHECK(client.transport->send(peer, sealed(1)) == SendStatus::kGone);
  });
  CHECK(node.wait(5));
  thread.join();
}

wire::Message list_of_inputs(size_t count) {
  wire::InputList list;
  for (uint32_t i = 0; i < count; ++i)
    list.inputs.push_back({.index = i,
                           .incarnation = Incarnation{i + 1},
                           .endpoint = "tcp://" + std::string(1000, 'x') + ":1"});
  return {.body = std::move(list)};
}

TEST_CASE("a message that fits into no frame is an error of send, and later ones pass",
          "[transport]") {
  const std::string wanted = GENERATE(as<std::string>(), "ipc", "tcp://127.0.0.1:*");
  Mailbox node;
  Mailbox client;
  const std::string endpoint = bound(node, wanted == "ipc" ? ipc_endpoint("large") : wanted);
  const PeerId peer = connected(client, endpoint);
  REQUIRE(client.transport->send(peer, sealed(1)) == SendStatus::kSent);
  REQUIRE(node.wait_until([&] {
    client.poll(kMillisecond);  // connects, and sends the queued message
    return node.received.size() == 1;
  }));
  const PeerId back = node.received[0].peer;
  // as long as many Hellos with long endpoints would make it
  CHECK(node.transport->send(back, list_of_inputs(1500)) == SendStatus::kTooLarge);
  CHECK(client.transport->send(peer, predictions((1 << 18) + 1)) == SendStatus::kTooLarge);
  CHECK(node.transport->send(back, sealed(2)) == SendStatus::kSent);
  CHECK(client.transport->send(peer, sealed(3)) == SendStatus::kSent);
  CHECK(client.wait(1));
  CHECK(node.wait(2));
  CHECK(epochs_of(client.received[0].message) == 2);
  CHECK(epochs_of(node.received[1].message) == 3);
  REQUIRE(node.errors.size() == 1);
  CHECK_THAT(node.errors[0].what, Catch::StartsWith("a message was not sent: InputList of "));
  REQUIRE(client.errors.size() == 1);
  CHECK_THAT(client.errors[0].what, Catch::Contains("values frame of 1048580 bytes"));
}

TEST_CASE("an outbox keeps a bounded number of bytes for peers that accept nothing",
          "[transport]") {
  Mailbox node({.send_bytes_max = 1 * kMiB});
  Mailbox client;
  const PeerId peer = connected(client, bound(node, "tcp://127.0.0.1:*"));
  REQUIRE(client.transport->send(peer, sealed(1)) == SendStatus::kSent);
  REQUIRE(node.wait_until([&] {
    client.poll(kMillisecond);  // connects, and sends the queued message
    return node.received.size() == 1;
  }));
  Outbox outbox(*node.transport);
  for (uint32_t i = 0; i < 400; ++i) outbox.send(node.received[0].peer, predictions(200'000, i));
  CHECK(outbox.bytes() > 32 * kMiB);
  CHECK(outbox.bytes() <= Outbox::kBytesMax);
  CHECK(client.wait_until([&] {
    outbox.flush();
    return outbox.empty();
  }));
  CHECK(outbox.bytes() == 0);
}

TEST_CASE("an outbox keeps as many bytes of requests as their sender allows", "[transport]") {
  Mailbox node;
  Mailbox client({.send_bytes_max = 1 * kMiB});
  const PeerId to = connected(client, bound(node, "tcp://127.0.0.1:*"));
  Outbox outbox(*client.transport);
  // The sockets of a peer that does not read take up to 55 MB, if they have the time.
  constexpr uint32_t kMessages = 200;
  for (uint32_t i = 0; i < kMessages; ++i)
    outbox.send(to, predictions(200'000, i), Outbox::kRequestBytesMax);
  CHECK(outbox.bytes() > Outbox::kBytesMax);
  // They leave room for replies to another peer.
  Mailbox other;
  const PeerId slow = connected(client, bound(other, "tcp://127.0.0.1:*"));
  for (uint32_t i = 0; i < 300; ++i)
    outbox.send(to, predictions(200'000, kMessages + i), Outbox::kRequestBytesMax);
  const uint64_t before = outbox.bytes();
  CHECK(before > Outbox::kBytesOfAllMax);
  for (uint32_t i = 0; i < 100; ++i) outbox.send(slow, predictions(200'000, i));
  CHECK(outbox.bytes() > before);
  CHECK(client.wait_until([&] {
    outbox.flush();
    node.poll(kMillisecond);
    return node.received.size() == kMessages + 300;
  }));
}

// ---- hostile peers

std::string header_frame() {
  wire::Codec codec;
  const auto frame = codec.encode(sealed(5));
  REQUIRE(frame);
  return {frame->begin(), frame->end()};
}

TEST_CASE("a hand-written peer is understood, which the tests below rely on", "[transport]") {
  Mailbox node;
  const int fd = zmtp_connection(bound(node, "tcp://127.0.0.1:*"));
  raw_send(fd, zmtp_frame(header_frame(), false));
  REQUIRE(node.wait(1));
  CHECK(epochs_of(node.received[0].message) == 5);
  ::close(fd);
}

TEST_CASE("malformed messages are counted, and too many of them end the connection",
          "[transport]") {
  Mailbox node;
  const int fd = zmtp_connection(bound(node, "tcp://127.0.0.1:*"));
  std::string bad = header_frame();
  bad[60] = char(bad[60] ^ 1);
  for (int i = 0; i < 40; ++i) raw_send(fd, zmtp_frame(bad, false));
  raw_send(fd, zmtp_frame(header_frame(), false));  // valid, but too late
  CHECK(node.wait_until([&] { return is_closed(fd); }));
  CHECK(node.received.empty());
  CHECK(node.transport->stats().malformed >= 17);
  REQUIRE(node.errors.size() == 18);  // no reports after the one that ended the connection
  CHECK(node.errors[0].what == "header frame has a wrong checksum");
  CHECK_THAT(node.errors[0].where, Catch::EndsWith(" from 127.0.0.1"));
  CHECK_THAT(node.errors[17].what, Catch::EndsWith("closed: too many malformed messages"));
  ::close(fd);
}

TEST_CASE("a malformed message is answered with Reject", "[transport]") {
  Mailbox node;
  const int fd = zmtp_connection(bound(node, "tcp://127.0.0.1:*"));
  std::string bad = header_frame();
  bad[60] = char(bad[60] ^ 1);
  raw_send(fd, zmtp_frame(bad, false));
  CHECK(node.wait_until([&] { return node.transport->stats().malformed == 1; }));
  const std::string answer = raw_receive(fd, 100);
  CHECK(answer.find("header frame has a wrong checksum") != std::string::npos);
  ::close(fd);
}

TEST_CASE("a message of too many frames ends the connection", "[transport]") {
  Mailbox node;
  const int fd = zmtp_connection(bound(node, "tcp://127.0.0.1:*"));
  for (int i = 0; i < 3; ++i) raw_send(fd, zmtp_frame(i == 0 ? header_frame() : "12345678", true));
  raw_send(fd, zmtp_frame("12345678", false));
  raw_send(fd, zmtp_frame(header_frame(), false));
  CHECK(node.wait_until([&] { return is_closed(fd) && !node.errors.empty(); }));
  CHECK(node.received.empty());
  REQUIRE(node.errors.size() == 1);
  CHECK_THAT(node.errors[0].what, Catch::EndsWith("a message has more than 3 frames"));
  ::close(fd);
}

TEST_CASE("a routing id chosen by the peer is refused", "[transport]") {
  Mailbox node;
  const int fd = zmtp_connection(bound(node, "tcp://127.0.0.1:*"), "evil!");
  raw_send(fd, zmtp_frame(header_frame(), false));
  CHECK(node.wait_until([&] { return node.transport->stats().malformed == 1; }));
  CHECK(node.received.empty());
  CHECK(node.wait_until([&] { return is_closed(fd); }));
  ::close(fd);
}

TEST_CASE("random bytes on a port have no effect on other peers", "[transport]") {
  Mailbox node;
  Mailbox client;
  const std::string endpoint = bound(node, "tcp://127.0.0.1:*");
  const PeerId peer = connected(client, endpoint);
  Rng rng(1);
  for (int connection = 0; connection < 60; ++connection) {
    const int fd = connection % 2 == 0 ? zmtp_connection(endpoint) : raw_connection(endpoint);
    // start of a ZMTP 1.0 connection
    std::string bytes = connection % 4 == 1 ? std::string("\1\0", 2) : std::string();
    for (size_t n = rng.below(3000); n > 0; --n) bytes.push_back(char(rng.next()));
    raw_send(fd, bytes);
    node.poll(0);
    ::close(fd);
  }
  REQUIRE(client.transport->send(peer, sealed(9)) == SendStatus::kSent);
  CHECK(client.poll(100 * kMillisecond) == 0);
  REQUIRE(node.wait(1));
  CHECK(node.received.size() == 1);
  CHECK(epochs_of(node.received[0].message) == 9);
}

}  // namespace
}  // namespace downpour::transport
