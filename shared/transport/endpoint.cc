#include "shared/transport/endpoint.h"

#include <algorithm>

#include "shared/transport/address.h"
#include "shared/transport/keys.h"
#include "shared/transport/listen.h"

namespace downpour::transport {
namespace {

bool has_scheme(const std::string& text) { return text.find("://") != std::string::npos; }

/// Parses like parse_address(), for the value of a flag.
Result<Address> parse_given(const std::string& endpoint, bool wildcard) {
  Result<Address> address = parse_address(endpoint, wildcard);
  if (address) return address;
  Error error = std::move(address).error();
  error.code = ErrorCode::kUsage;
  return error;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

}  // namespace

Result<std::string> normalize_endpoint(const std::string& text) {
  const std::string endpoint = has_scheme(text) ? text : "tcp://" + text;
  DP_TRY(const KeyedEndpoint keyed, split_key(endpoint));
  DP_TRY_VOID(parse_given(keyed.endpoint, false));
  return endpoint;
}

Result<std::string> normalize_bind_endpoint(const std::string& text, bool allowed) {
  const std::string endpoint = has_scheme(text) ? text : "tcp://" + text;
  DP_TRY(const Address address, parse_given(endpoint, true));
  if (address.scheme != Scheme::kTcp) return endpoint;
  DP_TRY(const ListenAddress listen, resolve_listen(endpoint, address));
  if (allowed) return listen.text();
  const std::string meant = listen.text() == endpoint ? "" : str(" (", listen.text(), ")");
  return Error{ErrorCode::kPermission,
               str("`", endpoint, "`", meant, " can be reached ",
                   listen.is_loopback() ? "by all users of this machine" : "from other machines",
                   ", without encryption or authentication"),
               "",
               "add --keys FOLDER, or --insecure if the network is trusted, or --bind "
               "ipc:///FOLDER/NAME",
               "DP-2701"};
}

Result<std::string> advertised_endpoint(const std::string& bound, const std::string& host) {
  if (!bound.starts_with("tcp://")) return bound;
  if (host.empty()) {
    const bool any = bound.starts_with("tcp://0.0.0.0:") || bound.starts_with("tcp://[::]:");
    if (!any) return bound;
    return Error{ErrorCode::kUsage, "no other machine knows a process by the address of --bind",
                 bound, "add --advertise with the name or address of this machine"};
  }
  const bool bracketed = host.front() == '[' && host.back() == ']';
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  if (auto checked = check_host(bare); !checked) {
    Error error = std::move(checked).error();
    error.code = ErrorCode::kUsage;
    return error;
  }
  const bool v6 = bare.find(':') != std::string::npos;
  return str("tcp://", v6 ? "[" : "", bare, v6 ? "]" : "", bound.substr(bound.rfind(':')));
}

std::string thread_endpoint(Incarnation process, uint32_t thread) {
  return str("inproc://ps-", hex(raw(process)), "-", thread);
}

Result<void> check_peer_endpoint(const std::string& endpoint, const std::string& chief) {
  const auto refused = [&](const std::string& why) {
    return Error{.code = ErrorCode::kMalformed,
                 .what = str("a message contains the endpoint \"", endpoint, "\": ", why)};
  };
  const Result<KeyedEndpoint> keyed = split_key(endpoint);
  if (!keyed) return refused(keyed.error().what);
  const Result<Address> address = parse_address(keyed->endpoint, false);
  if (!address) return refused(address.error().what);
  if (address->scheme == Scheme::kTcp) return {};
  const Result<Address> own = parse_address(chief, false);
  if (!own || own->scheme != address->scheme)
    return refused("its scheme differs from the scheme of the chief's endpoint");
  if (address->scheme == Scheme::kInproc) return {};
  const std::string folder = folder_of(own->place);
  const std::string name = address->place.substr(std::min(folder.size(), address->place.size()));
  const bool inside = !folder.empty() && folder_of(address->place) == folder && !name.empty() &&
                      name != "." && name != "..";
  if (inside) return {};
  return refused(str("it is not in the chief's folder ", folder));
}

}  // namespace downpour::transport
