// Address: an endpoint's parts, checked before a socket sees them, so that errors can say what to
// do.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace downpour::transport {

enum class Scheme : uint8_t { kInproc, kIpc, kTcp };

struct Address {
  Scheme scheme{};
  std::string place;  // what follows "scheme://": a name, a path, host:port
  // tcp only.
  std::string host;   // a name, an IPv4 address, an IPv6 address without its brackets, or "*"
  bool ipv6 = false;  // the host is an IPv6 address
  uint16_t port = 0;  // 0: "*"
};

/// Takes an endpoint apart. libzmq's own extensions (a source address and ";", "@") are errors.
/// Errors: kConfig. Host and port may be "*" only where `wildcard`.
Result<Address> parse_address(const std::string& endpoint, bool wildcard);

/// Checks that a host alone is a name or an address. Errors: kConfig.
Result<void> check_host(const std::string& host);

/// Makes sure that binding this ipc path destroys nothing: a socket that no process listens on is
/// left for the bind to replace. Errors: kUnavailable (a process listens), kCannotCreate (something
/// else lies there).
Result<void> check_ipc_path(const std::string& path);

/// The error of a bind that failed with this errno.
Error bind_error(const std::string& endpoint, const Address& address, int error_number);

}  // namespace downpour::transport
