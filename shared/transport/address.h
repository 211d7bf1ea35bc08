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
};

/// Errors: kConfig. The port may be "*" only where `wildcard`.
Result<Address> parse_address(const std::string& endpoint, bool wildcard);

/// Makes sure that binding this ipc path destroys nothing: a socket nobody listens on is left for
/// the bind to replace. Errors: kUnavailable (somebody listens), kCannotCreate (something else lies
/// there).
Result<void> check_ipc_path(const std::string& path);

/// The error of a bind that failed with this errno.
Error bind_error(const std::string& endpoint, const Address& address, int error_number);

}  // namespace downpour::transport
