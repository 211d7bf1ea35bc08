#include "tools/bench/raw_link.h"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <semaphore>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "shared/base/check.h"

namespace downpour::tools {
namespace {

/// Reads exactly `bytes` bytes. Returns false if the other end has closed the socket.
bool read_all(int fd, void* data, size_t bytes) {
  auto* at = static_cast<uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(fd, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= size_t(n);
  }
  return true;
}

bool write_all(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= size_t(n);
  }
  return true;
}

void connect_unix(int fd[2]) {
  DP_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0, errno);
  const int bytes = 4 << 20;
  for (int i = 0; i < 2; ++i) {
    ::setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ::setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
}

void connect_tcp(int fd[2]) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  DP_CHECK(::bind(listener, any, size) == 0 && ::listen(listener, 1) == 0, errno);
  DP_CHECK(::getsockname(listener, any, &size) == 0, errno);
  fd[0] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  DP_CHECK(::connect(fd[0], any, size) == 0, errno);
  fd[1] = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  DP_CHECK(fd[1] >= 0, errno);
  ::close(listener);
  const int on = 1;
  for (int i = 0; i < 2; ++i) ::setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void answer(int fd) {
  std::vector<uint8_t> in, out;
  RawExchange header;
  while (read_all(fd, &header, sizeof header)) {
    if (in.size() < header.request_bytes) in.resize(header.request_bytes);
    if (out.size() < header.reply_bytes) out.resize(header.reply_bytes, 1);
    if (!read_all(fd, in.data(), header.request_bytes)) return;
    if (!write_all(fd, out.data(), header.reply_bytes)) return;
  }
}

}  // namespace

RawLink::RawLink(Kind kind) {
  int fd[2];
  kind == Kind::kTcp ? connect_tcp(fd) : connect_unix(fd);
  peer_ = std::make_unique<Child>([&](const Child::Tell& tell) {
    ::close(fd[0]);
    tell("ready");
    answer(fd[1]);
  });
  ::close(fd[1]);
  fd_ = fd[0];
}

RawLink::~RawLink() { ::close(fd_); }

double RawLink::seconds(std::span<const RawExchange> exchanges, uint64_t repeats, uint32_t window) {
  uint64_t request_max = 0, reply_max = 0;
  for (const RawExchange& exchange : exchanges) {
    request_max = std::max(request_max, exchange.request_bytes);
    reply_max = std::max(reply_max, exchange.reply_bytes);
  }
  out_.resize(request_max + sizeof(RawExchange), 1);
  in_.resize(reply_max);
  const auto send = [&](const RawExchange& exchange) {
    std::copy_n(reinterpret_cast<const uint8_t*>(&exchange), sizeof exchange, out_.data());
    DP_CHECK(write_all(fd_, out_.data(), sizeof exchange + exchange.request_bytes), errno);
  };
  const auto receive = [&](const RawExchange& exchange) {
    DP_CHECK(read_all(fd_, in_.data(), exchange.reply_bytes), errno);
  };
  const double begin = wall_seconds();
  if (window == 1) {
    for (uint64_t r = 0; r < repeats; ++r) {
      for (const RawExchange& exchange : exchanges) {
        send(exchange);
        receive(exchange);
      }
    }
    return wall_seconds() - begin;
  }
  // A separate thread sends, so that neither end waits for the other one to read.
  std::counting_semaphore<> room(window);
  std::thread sender([&] {
    for (uint64_t r = 0; r < repeats; ++r) {
      for (const RawExchange& exchange : exchanges) {
        room.acquire();
        send(exchange);
      }
    }
  });
  for (uint64_t r = 0; r < repeats; ++r) {
    for (const RawExchange& exchange : exchanges) {
      receive(exchange);
      room.release();
    }
  }
  sender.join();
  return wall_seconds() - begin;
}

}  // namespace downpour::tools
