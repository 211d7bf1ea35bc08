#include "shared/flags/member_end.h"

#include <cstdio>
#include <netdb.h>
#include <sys/socket.h>

#include "shared/base/error_text.h"
#include "shared/base/result.h"
#include "shared/base/str.h"

namespace downpour {
namespace {

/// Returns the host of "HOST:PORT" or "tcp://HOST:PORT"; empty for another endpoint.
std::string host_of(std::string address) {
  if (address.starts_with("tcp://")) address = address.substr(6);
  const size_t colon = address.rfind(':');
  if (address.find("://") != std::string::npos || colon == std::string::npos) return {};
  address.resize(colon);
  const bool brackets = address.starts_with('[') && address.ends_with(']');
  return brackets ? address.substr(1, address.size() - 2) : address;
}

/// Returns why the name of a host has no address; empty if it has one.
std::string unresolved(const std::string& host) {
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (code != 0) return ::gai_strerror(code);
  ::freeaddrinfo(found);
  return {};
}

}  // namespace

int report_end(int code, const std::string& reason, const std::string& endpoint) {
  if (code == 0) return code;
  if (!reason.ends_with(kNoAnswer)) {
    std::fprintf(stderr, "error: %s\n", printable(reason).c_str());
    return code;
  }
  const std::string chief = endpoint.substr(0, endpoint.find('?'));  // without its key
  const std::string host = host_of(chief), why = host.empty() ? "" : unresolved(host);
  if (!why.empty()) {
    return report_error({ErrorCode::kUnavailable,
                         str("the name of the chief's machine, `", host, "`, is unknown: ", why),
                         chief, "correct --chief, or add the name to the DNS or /etc/hosts"});
  }
  return report_error(
      {ErrorCode::kUnavailable, str("the chief ", kNoAnswer), chief,
       "check that it runs and listens there, that no firewall is between, and that this process "
       "has keys of the same job (--keys RUN_DIR/keys), or that both have --insecure; a chief "
       "does not answer processes with other keys"});
}

}  // namespace downpour
