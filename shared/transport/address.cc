#include "shared/transport/address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <net/if.h>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace downpour::transport {
namespace {

Error bad_endpoint(const std::string& endpoint, std::string_view why) {
  return {.code = ErrorCode::kConfig,
          .what = str('"', endpoint, "\" is not an endpoint: ", why),
          .hint = "write tcp://HOST:PORT, ipc:///PATH or inproc://NAME",
          .id = "DP-2702"};
}

/// Returns 0 for "*", and nothing if the text is not a port.
std::optional<uint16_t> port_of(std::string_view text, bool wildcard) {
  if (text == "*") return wildcard ? std::optional<uint16_t>(0) : std::nullopt;
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc{} && end == text.data() + text.size() && port > 0;
  return whole ? std::optional(port) : std::nullopt;
}

/// Returns true for an IPv6 address, with or without the interface of a link-local one
/// ("fe80::1%eth0").
bool is_ipv6(const std::string& host) {
  const size_t zone = host.find('%');
  in6_addr address{};
  if (::inet_pton(AF_INET6, host.substr(0, zone).c_str(), &address) != 1) return false;
  if (zone == std::string::npos) return true;
  return zone + 1 < host.size() && ::if_nametoindex(host.c_str() + zone + 1) != 0;
}

/// Returns true if the text may be a host name, an interface or an IPv4 address: it has only
/// letters, digits, and . - _ inside.
bool is_name(std::string_view host) {
  constexpr size_t kNameBytesMax = 253;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !host.empty() && host.size() <= kNameBytesMax && is_plain(host.front()) &&
         std::all_of(host.begin(), host.end(),
                     [&](char c) { return is_plain(c) || c == '.' || c == '-'; });
}

/// Fills host, port and ipv6 from the place of a tcp endpoint.
Result<void> parse_tcp(const std::string& endpoint, bool wildcard, Address& out) {
  const size_t last = out.place.rfind(':');
  if (last == std::string::npos || last == 0 || last + 1 == out.place.size())
    return bad_endpoint(endpoint, "it has no host or no port");
  const std::optional<uint16_t> port =
      port_of(std::string_view(out.place).substr(last + 1), wildcard);
  if (!port) {
    return bad_endpoint(
        endpoint, wildcard ? "its port is not 1 to 65535 or *" : "its port is not 1 to 65535");
  }
  out.port = *port;
  out.host = out.place.substr(0, last);
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
    out.ipv6 = true;
    if (is_ipv6(out.host)) return {};
    return bad_endpoint(endpoint, "the text in brackets is not an IPv6 address");
  }
  if ((out.host == "*" && wildcard) || is_name(out.host)) return {};
  if (is_ipv6(out.host)) return bad_endpoint(endpoint, "an IPv6 address needs brackets");
  return bad_endpoint(endpoint, "its host is neither a host name nor an address");
}

/// Returns true if a process accepts connections on this path.
bool is_listened_on(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
  // EAGAIN: a process listens, but its backlog is full
  const bool answered =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 || errno == EAGAIN;
  ::close(fd);
  return answered;
}

}  // namespace

Result<Address> parse_address(const std::string& endpoint, bool wildcard) {
  const size_t colon = endpoint.find("://");
  if (colon == std::string::npos) return bad_endpoint(endpoint, "it has no scheme");
  const std::string scheme = endpoint.substr(0, colon);
  Address out{.scheme = Scheme::kTcp, .place = endpoint.substr(colon + 3)};
  if (out.place.empty()) return bad_endpoint(endpoint, "it has no address");
  if (out.place.find('\0') != std::string::npos)
    return bad_endpoint(endpoint, "it contains a zero byte");
  if (scheme == "inproc") {
    out.scheme = Scheme::kInproc;
    if (out.place.size() > 255) return bad_endpoint(endpoint, "its name has more than 255 bytes");
  } else if (scheme == "ipc") {
    out.scheme = Scheme::kIpc;
    constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
    if (out.place.size() > kPathMax) {
      Error error = bad_endpoint(endpoint, str("its path has more than ", kPathMax, " bytes"));
      error.hint = "choose a shorter folder for sockets";
      return error;
    }
    if (out.place.front() == '@' || out.place == "*")
      return bad_endpoint(endpoint,
                          "its path has no folder, so access can't be restricted to this user");
  } else if (scheme == "tcp") {
    DP_TRY_VOID(parse_tcp(endpoint, wildcard, out));
  } else {
    return bad_endpoint(endpoint, str("unknown scheme ", scheme));
  }
  return out;
}

Result<void> check_host(const std::string& host) {
  if (is_name(host) || is_ipv6(host)) return {};
  return Error{.code = ErrorCode::kConfig,
               .what = str('"', host, "\" is neither a host name nor an address"),
               .hint = "write only a host name or an address, without a port, e.g. 10.0.0.2",
               .id = "DP-2702"};
}

Result<void> check_ipc_path(const std::string& path) {
  struct stat status {};
  // nothing exists there, or bind() will report the reason
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return Error{.code = ErrorCode::kCannotCreate,
                 .what = "a file that is not a socket has this path",
                 .where = path,
                 .hint = "choose another path or remove it"};
  }
  if (!is_listened_on(path)) return {};
  return Error{.code = ErrorCode::kUnavailable,
               .what = str("socket ", path, " is in use"),
               .where = path,
               .hint = "stop the process that listens there or choose another path"};
}

Error bind_error(const std::string& endpoint, const Address& address, int error_number) {
  const std::string reason = std::strerror(error_number);
  if (error_number == EADDRINUSE) {
    const bool tcp = address.scheme == Scheme::kTcp;
    return {.code = ErrorCode::kUnavailable,
            .what = str(tcp ? "port " : "endpoint ", tcp ? address.place : endpoint, " is in use"),
            .where = endpoint,
            .hint = tcp ? "stop the process that listens there, or choose another port; with * a "
                          "ps chooses a free one"
                        : "choose another name"};
  }
  if (address.scheme == Scheme::kIpc) {
    return {.code = ErrorCode::kCannotCreate,
            .what = str("can't create socket ", address.place, ": ", reason),
            .where = endpoint,
            .hint = "choose a folder that exists and is writable"};
  }
  if (error_number == EACCES || error_number == EPERM) {
    return {.code = ErrorCode::kPermission,
            .what = str("no permission to listen on ", address.place, ": ", reason),
            .where = endpoint,
            .hint = "choose a port above 1023"};
  }
  return {.code = ErrorCode::kConfig,
          .what = str("can't listen on ", address.place, ": ", reason),
          .where = endpoint,
          .hint = "choose an address of this machine, e.g. tcp://127.0.0.1:*"};
}

}  // namespace downpour::transport
