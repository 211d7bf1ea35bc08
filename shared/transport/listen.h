// Listening: resolves a tcp endpoint to the one address that the socket listens on.
#pragma once

#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

#include "shared/base/result.h"
#include "shared/transport/address.h"

namespace downpour::transport {

/// An address of this machine, and its port (0: any).
struct ListenAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  /// Returns true if only processes of this machine can reach the address.
  bool is_loopback() const;
  /// Returns a text such as "tcp://127.0.0.1:7000" or "tcp://[::1]:*".
  std::string text() const;
};

/// Resolves the host of a tcp endpoint: an interface ("eth0"), a literal address, a host name (its
/// first address), or "*" (all IPv4 addresses). Errors: kConfig (unknown name).
Result<ListenAddress> resolve_listen(const std::string& endpoint, const Address& address);

/// Returns a listening socket. Errors: as in bind_error().
Result<int> listen_on(const std::string& endpoint, const Address& address,
                      const ListenAddress& listen);

}  // namespace downpour::transport
