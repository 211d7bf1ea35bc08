// Listening: a tcp endpoint resolved to the one address that the socket then listens on.
#pragma once

#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

#include "shared/base/result.h"
#include "shared/transport/address.h"

namespace downpour::transport {

/// An address of this machine, with its port (0: any).
struct ListenAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  /// Whether only processes of this machine reach it.
  bool is_loopback() const;
  /// "tcp://127.0.0.1:7000", "tcp://[::1]:*".
  std::string text() const;
};

/// The address that a tcp endpoint means: of an interface ("eth0"), a literal, a host name's first
/// one, or all addresses ("*": IPv4). Errors: kConfig (an unknown name).
Result<ListenAddress> resolve_listen(const std::string& endpoint, const Address& address);

/// A listening socket. Errors: as bind_error() says.
Result<int> listen_on(const std::string& endpoint, const Address& address,
                      const ListenAddress& listen);

}  // namespace downpour::transport
