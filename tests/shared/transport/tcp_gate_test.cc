#include "shared/transport/tcp_gate.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/transport/transport.h"
#include "shared/wire/codec.h"
#include "tests/shared/transport/raw_peer.h"

namespace downpour::transport {
namespace {

/// Sets limits for the duration of a test.
class WithLimits {
 public:
  explicit WithLimits(const GateLimits& limits) { TcpGate::instance().set_limits(limits); }
  ~WithLimits() { TcpGate::instance().set_limits(before_); }
  WithLimits(const WithLimits&) = delete;
  WithLimits& operator=(const WithLimits&) = delete;

 private:
  GateLimits before_ = TcpGate::instance().limits();
};

struct Bound {
  Bound() {
    const auto port = transport->bind("tcp://127.0.0.1:*");
    if (!port) FAIL(port.error().what);
    endpoint = transport->endpoint(*port);
  }
  bool wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 500; ++i) {
      poll();
      if (condition()) return true;
    }
    return false;
  }
  void poll() {
    transport->poll(
        20 * kMillisecond, 100,
        {.on_message = [this](PortId, PeerId, wire::Message&&) { ++messages; },
         .on_malformed = [this](PortId, PeerId, const Error& error) { last = error.what; }});
  }

  std::unique_ptr<Transport> transport = make_zmq_transport();
  std::string endpoint;
  uint64_t messages = 0;
  std::string last;
};

std::string padded_frame(uint32_t padding = 0) {
  wire::Codec codec;
  const auto frame = codec.encode({.body = wire::Sealed{padding}});
  REQUIRE(frame);
  return {frame->begin(), frame->end()};
}
/// Returns a connection that has sent a valid message.
int proven(const std::string& endpoint) {
  const int fd = zmtp_connection(endpoint);
  raw_send(fd, zmtp_frame(padded_frame(), false));
  return fd;
}
size_t closed_of(const std::vector<int>& fds) {
  return size_t(std::count_if(fds.begin(), fds.end(), [](int fd) { return is_closed(fd); }));
}
void close_all(const std::vector<int>& fds) {
  for (const int fd : fds) ::close(fd);
}

TEST_CASE("a connection is counted from accept to close", "[transport][gate]") {
  Bound node;
  TcpGate& gate = TcpGate::instance();
  const auto before = gate.counts();
  const int idle = raw_connection(node.endpoint);
  const int valid = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 1; }));
  CHECK(gate.counts().connections == before.connections + 2);
  CHECK(gate.counts().unproven == before.unproven + 1);
  CHECK(gate.counts().held_bytes == before.held_bytes);
  ::close(idle);
  ::close(valid);
  CHECK(node.wait_until([&] { return gate.counts().connections == before.connections; }));
  CHECK(gate.counts().unproven == before.unproven);
  CHECK(gate.counts().unproven_bytes == before.unproven_bytes);
}

TEST_CASE("idle connections beyond the limit are refused, and old ones make room",
          "[transport][gate]") {
  const WithLimits limits(
      {.connections_max = 40, .unproven_max = 10, .unproven_keep_ns = 300 * kMillisecond});
  Bound node;
  const int member = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 1; }));
  std::vector<int> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(raw_connection(node.endpoint));
  CHECK(node.wait_until([&] { return closed_of(idle) >= 20; }));
  CHECK_THAT(node.last, Catch::Contains("without a valid message"));
  // Later a new connection is accepted, because connections without a message make room.
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const int late = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 2; }));
  raw_send(member, zmtp_frame(padded_frame(), false));
  CHECK(node.wait_until([&] { return node.messages == 3; }));
  CHECK_FALSE(is_closed(member));
  close_all(idle);
  ::close(late);
  ::close(member);
}

TEST_CASE("connections with a valid message are limited too, and silent ones make room",
          "[transport][gate]") {
  const WithLimits limits({.connections_max = 8, .silent_keep_ns = 500 * kMillisecond});
  Bound node;
  std::vector<int> hostile;
  for (int i = 0; i < 8; ++i) hostile.push_back(proven(node.endpoint));
  CHECK(node.wait_until([&] { return node.messages == 8; }));
  const int refused = raw_connection(node.endpoint);
  CHECK(node.wait_until([&] { return is_closed(refused); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(550));
  int newcomer = raw_connection(node.endpoint);  // makes the gate look for silent ones
  node.wait_until([&] { return closed_of(hostile) == 8; });
  ::close(newcomer);
  newcomer = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 9; }));
  close_all(hostile);
  ::close(refused);
  ::close(newcomer);
}

TEST_CASE("a connection that never sends a valid message is closed after a while",
          "[transport][gate]") {
  const WithLimits limits({.unproven_idle_ns = 200 * kMillisecond});
  Bound node;
  const int idle = zmtp_connection(node.endpoint);
  const int member = proven(node.endpoint);
  CHECK(node.wait_until([&] { return is_closed(idle); }));
  CHECK_FALSE(is_closed(member));
  ::close(idle);
  ::close(member);
}

TEST_CASE("complete messages that wait for a busy receiver cut no connection",
          "[transport][gate]") {
  const WithLimits limits({.unproven_bytes_max = 256 * 1024});
  Bound node;
  auto client = make_zmq_transport();
  const auto peer = client->connect(node.endpoint);
  REQUIRE(peer);
  constexpr uint32_t kMessages = 60;
  for (uint32_t i = 0; i < kMessages; ++i) {
    wire::Message message{.body = wire::PredictReport{.batch = i},
                          .values = Bytes::of(std::vector<float>(200'000, 0.5F))};
    REQUIRE(client->send(*peer, std::move(message)) == SendStatus::kSent);
  }
  const auto flushed = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < flushed &&
         TcpGate::instance().counts().held_bytes < kMessages * 800'000)
    client->poll(20 * kMillisecond, 1, {.on_message = {}, .on_malformed = {}});
  CHECK(TcpGate::instance().counts().held_bytes >= kMessages * 800'000);
  CHECK(node.wait_until([&] { return node.messages == kMessages; }));
  CHECK(node.transport->stats().connections_cut == 0);
  CHECK(TcpGate::instance().counts().held_bytes == 0);
}

TEST_CASE("the bytes that connections hold together are limited, and the largest holder is cut",
          "[transport][gate]") {
  const WithLimits limits({.held_bytes_max = 4 << 20});
  Bound node;
  const int small = proven(node.endpoint);
  const int large = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 2; }));
  // Not polled from here on, so nothing is delivered.
  std::string message(1, '\2');
  for (int shift = 56; shift >= 0; shift -= 8) message += char(uint64_t{1'000'000} >> shift);
  message += std::string(1'000'000, 'x');
  raw_send(small, zmtp_frame(padded_frame(), false));
  for (int i = 0; i < 20; ++i) raw_send(large, message);
  CHECK(node.wait_until([&] { return is_closed(large); }));
  CHECK(node.wait_until([&] { return node.messages == 3; }));
  CHECK_FALSE(is_closed(small));
  CHECK(node.wait_until([&] { return TcpGate::instance().counts().held_bytes == 0; }));
  ::close(small);
  ::close(large);
}

TEST_CASE(
    "without a free descriptor a port refuses connections at once, and accepts them again later",
    "[transport][gate]") {
  Bound node;
  const int member = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 1; }));
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{rlim_t(fd) + 1, before.rlim_max};  // all lower ones are in use
  std::vector<int> fill;
  for (int i = ::dup(fd); i >= 0 && i < fd; i = ::dup(fd)) fill.push_back(i);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(std::stoi(node.endpoint.substr(node.endpoint.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const bool refused = node.wait_until([&] { return is_closed(fd); });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(refused);
  CHECK_THAT(node.last, Catch::Contains("refused: the process has no file descriptor left"));
  close_all(fill);
  const int late = proven(node.endpoint);
  CHECK(node.wait_until([&] { return node.messages == 2; }));
  ::close(late);
  ::close(fd);
  ::close(member);
}

TEST_CASE("some descriptors are reserved for files", "[transport][gate]") {
  CHECK(descriptor_reserve(1024) == 256);
  CHECK(descriptor_reserve(100) == 64);
  CHECK(descriptor_reserve(1'000'000) == 1024);
  CHECK(gate_limits_of_process().connections_max >= 1);
}

}  // namespace
}  // namespace downpour::transport
