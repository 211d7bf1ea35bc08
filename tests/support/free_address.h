// free_address: an address for a program that a test starts.
#pragma once

#include <arpa/inet.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace downpour::testing {

/// Returns an address (127.0.0.1:PORT) of this machine that no process uses.
inline std::string free_address() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  close(fd);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

}  // namespace downpour::testing
