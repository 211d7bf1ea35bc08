// ZAP: the request that ZeroMQ sends for each connection before it admits the peer (RFC 27), and
// the reply. These are pure functions; zmq_curve.cc moves the frames.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/transport/keys.h"

namespace downpour::transport {

struct ZapRequest {
  std::string id;       // returned in the reply
  std::string domain;   // names the keyring that decides
  std::string address;  // of the peer, for messages
  Key key{};            // public key of the peer, proven by the handshake
};

/// Parses a request. Errors: kMalformed unless it has version 1.0, the mechanism CURVE and one key.
Result<ZapRequest> parse_zap_request(std::span<const std::string_view> frames);

/// Returns the frames of the reply. A key in the list is admitted, and its text form becomes the
/// User-Id of the connection. Any other key is refused. If `allowed` is null, every key is refused.
std::vector<std::string> answer_zap(const ZapRequest& request, const AllowList* allowed);

/// Returns the reply to a malformed request, which refuses the connection.
std::vector<std::string> refuse_zap(std::span<const std::string_view> frames);

bool is_admitted(const std::vector<std::string>& answer);

}  // namespace downpour::transport
