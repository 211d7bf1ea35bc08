// ZAP: the question that ZeroMQ asks about each connection before it admits the peer (RFC 27), and
// the answer. Pure functions; zmq_curve.cc moves the frames.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/transport/keys.h"

namespace downpour::transport {

struct ZapRequest {
  std::string id;       // echoed in the answer
  std::string domain;   // which keyring decides
  std::string address;  // of the peer, for messages
  Key key{};            // the peer's public key, proven by the handshake
};

/// Errors: kMalformed where it is not version 1.0 with the mechanism CURVE and one key.
Result<ZapRequest> parse_zap_request(std::span<const std::string_view> frames);

/// The answer's frames. A key on the list is admitted, and its text form becomes the connection's
/// User-Id; any other is refused. `allowed` null: every key is refused.
std::vector<std::string> answer_zap(const ZapRequest& request, const AllowList* allowed);

/// The answer to a malformed request: refused.
std::vector<std::string> refuse_zap(std::span<const std::string_view> frames);

bool is_admitted(const std::vector<std::string>& answer);

}  // namespace downpour::transport
