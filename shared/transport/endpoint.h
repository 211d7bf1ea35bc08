// Endpoints as users write them.
#pragma once

#include <string>

#include "shared/base/result.h"

namespace downpour::transport {

/// "HOST:PORT" becomes "tcp://HOST:PORT"; tcp://, ipc:// and inproc:// stay. Errors: kUsage.
Result<std::string> normalize_endpoint(const std::string& text);

/// The same for an endpoint to bind. Beyond loopback it needs keys or an explicit --insecure (`allowed`): without keys
/// traffic is neither encrypted nor authenticated. Errors: kUsage, kPermission.
Result<std::string> normalize_bind_endpoint(const std::string& text, bool allowed);

/// A bound tcp endpoint with the host by which others know this machine, where one is given.
std::string advertised_endpoint(const std::string& bound, const std::string& host);

}  // namespace downpour::transport
