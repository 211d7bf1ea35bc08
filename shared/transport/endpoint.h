// Endpoints as users and peers write them.
#pragma once

#include <string>

#include "shared/base/result.h"

namespace downpour::transport {

/// An endpoint to connect to: "HOST:PORT" becomes "tcp://HOST:PORT"; tcp://, ipc:// and inproc://
/// are checked and stay, with a key ("?key=") where there is one. Errors: kUsage, kConfig (a key).
Result<std::string> normalize_endpoint(const std::string& text);

/// The same for an endpoint to bind, whose port may be "*". A tcp host is resolved to the one
/// address that the socket will listen on, and that address is judged: beyond loopback it needs
/// keys or an explicit --insecure (`allowed`), because without keys traffic is neither encrypted
/// nor authenticated. Errors: kUsage, kConfig (an unknown host), kPermission.
Result<std::string> normalize_bind_endpoint(const std::string& text, bool allowed);

/// A bound tcp endpoint with the host by which others know this machine, where one is given.
/// Errors: kUsage (the host is no host).
Result<std::string> advertised_endpoint(const std::string& bound, const std::string& host);

/// Checks an endpoint that came in a message: it names a tcp address, or a place of the kind that
/// this process's own chief has (ipc: in the same folder; inproc). A forged message must not make a
/// process open any other path. Errors: kMalformed.
Result<void> check_peer_endpoint(const std::string& endpoint, const std::string& chief);

}  // namespace downpour::transport
