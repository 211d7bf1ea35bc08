#include "shared/transport/endpoint.h"

#include <algorithm>

namespace downpour::transport {

Result<std::string> normalize_endpoint(const std::string& text) {
  if (text.starts_with("tcp://") || text.starts_with("ipc://") || text.starts_with("inproc://")) return text;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (colon == 0 || port.empty() || !std::all_of(port.begin(), port.end(), [](char c) { return (c >= '0' && c <= '9') || c == '*'; })) {
    return Error{ErrorCode::kUsage, str("`", text, "` is no address"), "", "write HOST:PORT, for example 127.0.0.1:7000", ""};
  }
  return "tcp://" + text;
}

Result<std::string> normalize_bind_endpoint(const std::string& text, bool allowed) {
  DP_TRY(std::string endpoint, normalize_endpoint(text));
  if (allowed || !endpoint.starts_with("tcp://")) return endpoint;
  const std::string host = endpoint.substr(6, endpoint.rfind(':') - 6);
  if (host == "localhost" || host == "[::1]" || host.starts_with("127.")) return endpoint;
  return Error{ErrorCode::kPermission, str("`", endpoint, "` can be reached from other machines, without encryption or a password"), "",
               "add --keys FOLDER, or --insecure if the network is trusted, or bind 127.0.0.1", "DP-2701"};
}

std::string advertised_endpoint(const std::string& bound, const std::string& host) {
  if (host.empty() || !bound.starts_with("tcp://")) return bound;
  return str("tcp://", host, bound.substr(bound.rfind(':')));
}

}  // namespace downpour::transport
