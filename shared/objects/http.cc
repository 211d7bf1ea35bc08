#include "shared/objects/http.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <curl/curl.h>
#include <mutex>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/str.h"

namespace downpour::objects {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kExchangeSeconds = 120;  // a retry continues after the bytes that arrived
constexpr long kBufferBytes = 512L << 10;
constexpr size_t kIdleConnectionsMax = 32;  // further ones are closed
constexpr size_t kHeaderBytesMax = 4096;    // longer headers are ignored

/// Unused connections. They are reused because reading a shard opens its object several times.
class IdleConnections {
 public:
  CURL* take() {
    const std::lock_guard lock(mutex_);
    if (handles_.empty()) return nullptr;
    CURL* const handle = handles_.back();  // the most recently used one is most likely still open
    handles_.pop_back();
    return handle;
  }
  void give(CURL* handle) {
    {
      const std::lock_guard lock(mutex_);
      if (handles_.size() < kIdleConnectionsMax) {
        handles_.push_back(handle);
        return;
      }
    }
    curl_easy_cleanup(handle);
  }

 private:
  std::mutex mutex_;
  std::vector<CURL*> handles_;
};

/// Returns the file of the certificates that the system trusts, or "" if libcurl knows where they
/// are. A libcurl that is linked into a binary for all distributions does not know it.
const std::string& system_ca_bundle() {
  static const std::string bundle = [] {
    const curl_version_info_data* const built = curl_version_info(CURLVERSION_NOW);
    if (built->cainfo != nullptr || built->capath != nullptr) return std::string();
    for (const char* path : {"/etc/ssl/certs/ca-certificates.crt",  // Debian, Arch
                             "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, Red Hat
                             "/etc/ssl/ca-bundle.pem",              // SUSE
                             "/etc/ssl/cert.pem"}) {                // Alpine
      if (access(path, R_OK) == 0) return std::string(path);
    }
    return std::string();
  }();
  return bundle;
}

std::atomic<bool>& ever_answered() {
  static std::atomic<bool> answered{false};
  return answered;
}

IdleConnections& idle_connections() {
  // Never destroyed, because a reader's thread may still return a connection at exit.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): shared on purpose
  static IdleConnections* const idle = new IdleConnections;
  return *idle;
}

struct Exchange {
  const HttpGet& request;
  HttpReply& reply;
};

size_t on_body(char* bytes, size_t, size_t size, void* context) {
  auto& [request, reply] = *static_cast<Exchange*>(context);
  if (reply.status == request.body_status) return request.body(bytes, size) ? size : 0;
  reply.text.append(bytes, std::min(size, kReplyTextBytesMax - reply.text.size()));
  return reply.text.size() < kReplyTextBytesMax ? size : 0;
}

size_t on_header(char* bytes, size_t, size_t size, void* context) {
  HttpReply& reply = static_cast<Exchange*>(context)->reply;
  const std::string_view line(bytes, size);
  if (line.starts_with("HTTP/")) {  // not always the first one, for example after "100 Continue"
    const size_t blank = line.find(' ');
    reply = HttpReply{};
    for (size_t i = blank + 1; blank != line.npos && i < std::min(line.size(), blank + 4); ++i)
      if (std::isdigit(uint8_t(line[i])) != 0) reply.status = reply.status * 10 + (line[i] - '0');
    return size;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos || size > kHeaderBytesMax) return size;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return char(std::tolower(uint8_t(c))); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && uint8_t(value.front()) <= ' ') value.remove_prefix(1);
  while (!value.empty() && uint8_t(value.back()) <= ' ') value.remove_suffix(1);
  if (name == "etag") reply.etag = value;
  if (name == "content-range") reply.content_range = value;
  if (name == "x-amz-bucket-region") reply.region = value;
  return size;
}

/// Opens a socket that the programs of a job do not inherit.
curl_socket_t open_socket(void*, curlsocktype, struct curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return true;
    default:
      return false;
  }
}

}  // namespace

HttpConnection::HttpConnection() {
  static std::once_flag once;
  std::call_once(once, [] { DP_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
  handle_ = idle_connections().take();
  if (handle_ == nullptr) handle_ = curl_easy_init();
  DP_CHECK(handle_ != nullptr);  // out of memory
}

HttpConnection::HttpConnection(HttpConnection&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

HttpConnection::~HttpConnection() {
  if (handle_ != nullptr) idle_connections().give(handle_);
}

bool HttpConnection::was_ever_answered() { return ever_answered().load(std::memory_order_relaxed); }

HttpReply HttpConnection::get(const HttpGet& request) {
  CURL* const handle = handle_;
  curl_easy_reset(handle);  // keeps the connection
  HttpReply reply;
  Exchange exchange{request, reply};
  curl_slist* headers = nullptr;
  for (const auto& [name, value] : request.headers)
    headers = curl_slist_append(headers, str(name, ": ", value).c_str());
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);  // keys with "/../" are signed unchanged
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, long{kStallBytes});
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, long{request.stall_s});
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, kExchangeSeconds);
  curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &exchange);
  const std::string& ca_bundle = request.ca_bundle.empty() ? system_ca_bundle() : request.ca_bundle;
  if (!ca_bundle.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, ca_bundle.c_str());
  const CURLcode code = curl_easy_perform(handle);
  curl_slist_free_all(headers);
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, nullptr);
  if (reply.status != 0) ever_answered().store(true, std::memory_order_relaxed);
  if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && reply.status != request.body_status)) {
    reply.failure = curl_easy_strerror(code);
    reply.may_pass = may_pass(code);
  }
  return reply;
}

}  // namespace downpour::objects
