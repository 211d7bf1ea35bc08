// Hostile peers at a port without keys: their cost is bounded.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/units.h"
#include "shared/transport/transport.h"
#include "shared/wire/codec.h"
#include "tests/shared/transport/raw_peer.h"
#include "tests/support/seeds.h"

namespace downpour::transport {
namespace {

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return resident * uint64_t(::sysconf(_SC_PAGESIZE));
}

/// A bound port that a thread of its own polls until the end.
class Port {
 public:
  Port() {
    const auto bound = transport_->bind("tcp://127.0.0.1:*");
    if (!bound) FAIL(bound.error().what);
    endpoint_ = transport_->endpoint(*bound);
    thread_ = std::thread([this] {
      while (!done_) {
        transport_->poll(20 * kMillisecond, 1000,
                         {.on_message = [this](PortId, PeerId, wire::Message&&) { ++messages_; },
                          .on_malformed = [this](PortId, PeerId, const Error&) { ++errors_; }});
      }
    });
  }
  ~Port() {
    done_ = true;
    transport_->wake();
    thread_.join();
  }
  const std::string& endpoint() const { return endpoint_; }
  uint64_t messages() const { return messages_; }
  uint64_t errors() const { return errors_; }

 private:
  std::unique_ptr<Transport> transport_ = make_zmq_transport();
  std::string endpoint_;
  std::atomic<bool> done_ = false;
  std::atomic<uint64_t> messages_ = 0, errors_ = 0;
  std::thread thread_;
};

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

/// Sends all bytes, or stops when the other side ends the connection. Returns the number of bytes
/// sent.
uint64_t send_all(int fd, const std::string& bytes, uint64_t times) {
  uint64_t sent = 0;
  for (uint64_t i = 0; i < times; ++i) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return sent;
      at += size_t(n);
      sent += uint64_t(n);
    }
  }
  return sent;
}

std::string long_frame(size_t claimed, const std::string& body, bool more) {
  std::string out{char(more ? 3 : 2)};
  for (int shift = 56; shift >= 0; shift -= 8) out += char(claimed >> shift);
  return out + body;
}

std::string header_frame(uint32_t epochs) {
  wire::Codec codec;
  const auto frame = codec.encode({.body = wire::Sealed{epochs}});
  REQUIRE(frame);
  return {frame->begin(), frame->end()};
}

TEST_CASE("an unfinished message of empty frames takes no memory", "[transport][hostile]") {
  const Port port;
  const bool valid_first = GENERATE(false, true);
  const int fd = zmtp_connection(port.endpoint());
  const uint64_t before = resident_bytes();
  if (valid_first) {
    raw_send(fd, zmtp_frame(header_frame(1), false));
    CHECK(wait_until([&] { return port.messages() == 1; }));
  }
  std::string empty_frames;
  for (int i = 0; i < 32 << 10; ++i) empty_frames += std::string("\1\0", 2);
  send_all(fd, empty_frames, 128);  // 8 MiB on the wire, 256 MiB in libzmq's queue
  CHECK(wait_until([&] { return is_closed(fd); }));
  CHECK(resident_bytes() < before + 32 * kMiB);
  ::close(fd);
}

TEST_CASE("an unfinished message of large frames takes no memory", "[transport][hostile]") {
  const Port port;
  const int fd = zmtp_connection(port.endpoint());
  const uint64_t before = resident_bytes();
  send_all(fd, long_frame(1'000'000, std::string(1'000'000, 'x'), true), 200);
  CHECK(wait_until([&] { return is_closed(fd); }));
  CHECK(resident_bytes() < before + 32 * kMiB);
  ::close(fd);
}

TEST_CASE("unfinished frames of many connections together take little memory",
          "[transport][hostile]") {
  const Port port;
  const uint64_t before = resident_bytes();
  std::vector<int> fds;
  for (int i = 0; i < 150; ++i) {
    fds.push_back(zmtp_connection(port.endpoint()));
    send_all(fds.back(), long_frame(1'000'000, std::string(900'000, 'x'), false), 1);
  }
  CHECK(wait_until(
      [&] { return std::any_of(fds.begin(), fds.end(), [](int fd) { return is_closed(fd); }); }));
  // Although 135 MB were sent. TSan keeps several bytes for each byte that is written.
  if (!testing::kSanitized) CHECK(resident_bytes() < before + 64 * kMiB);
  const int honest = zmtp_connection(port.endpoint());
  raw_send(honest, zmtp_frame(header_frame(1), false));
  CHECK(wait_until([&] { return port.messages() == 1; }));
  for (const int fd : fds) ::close(fd);
  ::close(honest);
}

TEST_CASE("connections with an older ZMTP or another protocol are closed", "[transport][hostile]") {
  const Port port;
  const std::string bytes = GENERATE(std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\1\0", 2),
                                     std::string("\xff\0\0\0\0\0\0\0\1\x7f\1", 11));
  const int fd = raw_connection(port.endpoint());
  raw_send(fd, bytes);
  CHECK(wait_until([&] { return is_closed(fd); }));
  ::close(fd);
}

TEST_CASE("many peers that send malformed messages cause few reports and few answers",
          "[transport][hostile]") {
  const Port port;
  std::string bad = header_frame(1);
  bad[60] = char(bad[60] ^ 1);
  std::string many;
  for (int i = 0; i < 20; ++i) many += zmtp_frame(bad, false);
  uint64_t answered_bytes = 0;
  for (int i = 0; i < 100; ++i) {
    const int fd = zmtp_connection(port.endpoint());
    raw_send(fd, many);
    CHECK(wait_until([&] {
      char answer[4096];
      const ssize_t got = ::recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
      answered_bytes += got > 0 ? uint64_t(got) : 0;
      return got == 0 || (got < 0 && errno != EAGAIN);
    }));
    ::close(fd);
  }
  CHECK(port.errors() >= 10);
  CHECK(port.errors() < 200);          // for 1,700 errors
  CHECK(answered_bytes < 200 * 1000);  // of 1,700 answers
}

}  // namespace
}  // namespace downpour::transport
