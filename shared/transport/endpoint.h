// Endpoints: checks and normalizes the endpoint texts of users and peers.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace downpour::transport {

/// Returns an endpoint to connect to. "HOST:PORT" becomes "tcp://HOST:PORT"; tcp://, ipc:// and
/// inproc:// endpoints are checked and returned unchanged, including a key ("?key="). Errors:
/// kUsage, kConfig (invalid key).
Result<std::string> normalize_endpoint(const std::string& text);

/// Returns an endpoint to bind; its port may be "*". The host of a tcp endpoint is resolved to the
/// one address that the socket will listen on. For tcp, `allowed` must be true (the process has
/// keys or --insecure), because without keys traffic is neither encrypted nor authenticated.
/// Errors: kUsage, kConfig (unknown host), kPermission.
Result<std::string> normalize_bind_endpoint(const std::string& text, bool allowed);

/// Returns a bound tcp endpoint with `host` in place of its own host, or unchanged if `host` is
/// empty. `host` is the name that other machines use for this one. Errors: kUsage (invalid host, or
/// none for an endpoint that stands for all addresses).
Result<std::string> advertised_endpoint(const std::string& bound, const std::string& host);

/// Returns the endpoint at which a ps core accepts the threads of its own process. `thread` is the
/// number of the core.
std::string thread_endpoint(Incarnation process, uint32_t thread);

/// Checks an endpoint from a message. It must be a tcp address, or have the scheme of this
/// process's own chief (ipc: in the same folder; inproc). Otherwise a forged message could make a
/// process open any path. Errors: kMalformed.
Result<void> check_peer_endpoint(const std::string& endpoint, const std::string& chief);

}  // namespace downpour::transport
