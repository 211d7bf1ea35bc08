// Address: the parts of an endpoint. They are checked before a socket gets them, so that errors can
// suggest an action.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace downpour::transport {

enum class Scheme : uint8_t { kInproc, kIpc, kTcp };

struct Address {
  Scheme scheme{};
  std::string place;  // text after "scheme://": a name, a path, or host:port
  // tcp only:
  std::string host;   // a name, an IPv4 address, an IPv6 address without brackets, or "*"
  bool ipv6 = false;  // the host is an IPv6 address
  uint16_t port = 0;  // 0: "*"
};

/// Parses an endpoint. Extensions of libzmq (a source address and ";", "@") are errors. Host and
/// port may be "*" only if `wildcard`. Errors: kConfig.
Result<Address> parse_address(const std::string& endpoint, bool wildcard);

/// Checks that a host without a port is a name or an address. Errors: kConfig.
Result<void> check_host(const std::string& host);

/// Checks that binding this ipc path destroys nothing. A socket without a listening process may
/// stay, because bind replaces it. Errors: kUnavailable (a process listens on it), kCannotCreate
/// (the path is not a socket).
Result<void> check_ipc_path(const std::string& path);

/// Returns the error of a bind that failed with this errno.
Error bind_error(const std::string& endpoint, const Address& address, int error_number);

}  // namespace downpour::transport
