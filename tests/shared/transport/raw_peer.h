// A tcp peer without libzmq, which sends any bytes.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <string>
#include <sys/socket.h>

#include <catch2/catch.hpp>

namespace downpour::transport {

inline int raw_connection(const std::string& endpoint) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

inline void raw_send(int fd, const std::string& bytes) {
  (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

inline std::string raw_receive(int fd, size_t least) {
  std::string out(4096, '\0');
  size_t got = 0;
  while (got < least) {
    const ssize_t n = ::recv(fd, out.data() + got, out.size() - got, 0);
    REQUIRE(n > 0);
    got += size_t(n);
  }
  out.resize(got);
  return out;
}

/// Returns true if the other side has ended the connection. Discards received bytes.
inline bool is_closed(int fd) {
  char dropped[4096];
  ssize_t got = 0;
  do {
    got = ::recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);
  } while (got > 0);
  return got == 0 || (errno != EAGAIN && errno != EINTR);
}

/// Returns a connection after a hand-written handshake of ZMTP 3.0 without security. If `identity`
/// is not empty, it is the routing id of the peer.
inline int zmtp_connection(const std::string& endpoint, const std::string& identity = {}) {
  const int fd = raw_connection(endpoint);
  std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
  greeting.resize(64, '\0');
  raw_send(fd, greeting);
  std::string ready("\5READY\13Socket-Type\0\0\0\6DEALER", 28);
  if (!identity.empty())
    ready += std::string("\10Identity\0\0\0", 12) + char(identity.size()) + identity;
  constexpr size_t kTheirReadyBytes = 2 + 28 + 13;
  const size_t received = raw_receive(fd, 64).size();
  raw_send(fd, std::string(1, '\4') + char(ready.size()) + ready);
  if (received < 64 + kTheirReadyBytes) raw_receive(fd, 64 + kTheirReadyBytes - received);
  return fd;
}
inline std::string zmtp_frame(const std::string& body, bool more) {
  return std::string(1, char(more ? 1 : 0)) + char(body.size()) + body;
}

}  // namespace downpour::transport
