#include "shared/transport/listen.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <unistd.h>

namespace downpour::transport {
namespace {

constexpr int kBacklog = 4096;

const sockaddr* as_sockaddr(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr*>(&storage);
}

ListenAddress of(const sockaddr* address, socklen_t bytes, uint16_t port) {
  ListenAddress out;
  std::memcpy(&out.storage, address, bytes);
  out.bytes = bytes;
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&out.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&out.storage)->sin_port = htons(port);
  }
  return out;
}

/// Finds the first address of an interface, IPv4 before IPv6.
bool find_interface(const std::string& name, uint16_t port, ListenAddress& out) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(found, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != family || name != at->ifa_name)
        continue;
      out = of(at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6), port);
      return true;
    }
  }
  return false;
}

bool find_host(const Address& address, ListenAddress& out) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (address.ipv6 && family == AF_INET) continue;
    addrinfo hints{};
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.host.c_str(), nullptr, &hints, &found) != 0) continue;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
    out = of(found->ai_addr, found->ai_addrlen, address.port);
    return true;
  }
  return false;
}

}  // namespace

bool ListenAddress::is_loopback() const {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string ListenAddress::text() const {
  char host[NI_MAXHOST] = {};
  if (::getnameinfo(as_sockaddr(storage), bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) !=
      0)
    return {};
  const bool v6 = storage.ss_family == AF_INET6;
  const uint16_t port = ntohs(v6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                 : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  return str("tcp://", v6 ? "[" : "", host, v6 ? "]" : "", ":", port == 0 ? "*" : str(port));
}

Result<ListenAddress> resolve_listen(const std::string& endpoint, const Address& address) {
  ListenAddress out;
  if (address.host == "*") {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    return of(reinterpret_cast<const sockaddr*>(&any), sizeof(any), address.port);
  }
  if (find_interface(address.host, address.port, out) || find_host(address, out)) return out;
  return Error{.code = ErrorCode::kConfig,
               .what = str("can't listen on ", address.place, ": `", address.host,
                           "` is neither a network interface nor a host name that resolves"),
               .where = endpoint,
               .hint = "choose an address of this machine, e.g. tcp://127.0.0.1:*"};
}

Result<int> listen_on(const std::string& endpoint, const Address& address,
                      const ListenAddress& listen) {
  const int fd = ::socket(listen.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return bind_error(endpoint, address, errno);
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (listen.storage.ss_family == AF_INET6)
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (::bind(fd, as_sockaddr(listen.storage), listen.bytes) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error_number = errno;
    ::close(fd);
    return bind_error(endpoint, address, error_number);
  }
  return fd;
}

}  // namespace downpour::transport
