#include "shared/transport/address.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace downpour::transport {
namespace {

Error bad_endpoint(const std::string& endpoint, std::string_view why) {
  return {.code = ErrorCode::kConfig,
          .what = str('"', endpoint, "\" is no endpoint: ", why),
          .hint = "write tcp://HOST:PORT, ipc:///PATH or inproc://NAME"};
}

bool is_port(std::string_view text, bool wildcard) {
  if (text == "*") return wildcard;
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port > 0;
}

/// Whether a process accepts connections there.
bool is_listened_on(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
  const bool answered = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 ||
                        errno == EAGAIN;  // its backlog is full
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
    return bad_endpoint(endpoint, "it holds a zero byte");
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
  } else if (scheme == "tcp") {
    const size_t last = out.place.rfind(':');
    if (last == std::string::npos || last == 0)
      return bad_endpoint(endpoint, "it has no host or no port");
    if (!is_port(std::string_view(out.place).substr(last + 1), wildcard)) {
      return bad_endpoint(
          endpoint, wildcard ? "its port is not 1 to 65535 or *" : "its port is not 1 to 65535");
    }
  } else {
    return bad_endpoint(endpoint, str("unknown scheme ", scheme));
  }
  return out;
}

Result<void> check_ipc_path(const std::string& path) {
  if (path.front() == '@' || path == "*")
    return {};  // abstract, or chosen by the library: no file to lose
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    return {};  // nothing there, or the bind will say why not
  if (!S_ISSOCK(status.st_mode)) {
    return Error{.code = ErrorCode::kCannotCreate,
                 .what = "there is a file that is no socket",
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
            .hint = tcp ? "stop the process that listens there, or choose another port (* chooses "
                          "a free one)"
                        : "choose another name"};
  }
  if (address.scheme == Scheme::kIpc) {
    return {.code = ErrorCode::kCannotCreate,
            .what = str("can't create socket ", address.place, ": ", reason),
            .where = endpoint,
            .hint = "choose a folder that exists and may be written"};
  }
  if (error_number == EACCES || error_number == EPERM) {
    return {.code = ErrorCode::kPermission,
            .what = str("may not listen on ", address.place, ": ", reason),
            .where = endpoint,
            .hint = "choose a port above 1023"};
  }
  return {.code = ErrorCode::kConfig,
          .what = str("can't listen on ", address.place, ": ", reason),
          .where = endpoint,
          .hint = "choose an address of this machine, e.g. tcp://127.0.0.1:*"};
}

}  // namespace downpour::transport
