// free_address: an address for a program that a test starts.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <netinet/in.h>
#include <random>
#include <set>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace downpour::testing {

/// Returns an address (127.0.0.1:PORT) of this machine that no process uses. Each call in a process
/// returns a different one. The port is below the range from which the kernel takes the ports of
/// outgoing connections (32768 and above by default), so none of them takes it before the program
/// does.
inline std::string free_address() {
  static std::mt19937 random{std::random_device{}()};
  static std::set<int> given;
  for (;;) {
    const int port = std::uniform_int_distribution<int>(10'000, 32'000)(random);
    if (!given.insert(port).second) continue;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(std::uint16_t(port));
    const int bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    const int error = errno;
    close(fd);
    if (bound == 0) return "127.0.0.1:" + std::to_string(port);
    REQUIRE(error == EADDRINUSE);
  }
}

}  // namespace downpour::testing
