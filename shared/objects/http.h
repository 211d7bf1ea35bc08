// HttpConnection: sends HTTP GETs over connections that stay open for reuse. The only module that
// includes libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/objects/sigv4.h"

namespace downpour::objects {

constexpr int64_t kStallSeconds = 15;  // default of HttpGet::stall_s
constexpr int64_t kStallBytes = 1024;  // per second; a slower exchange counts as stalled

struct HttpGet {
  std::string url;
  Parameters headers;
  std::string ca_bundle;  // file with the trusted certificates; empty: those of the system
  int64_t stall_s = kStallSeconds;  // seconds of stall after which the exchange ends
  /// Status of a reply whose body goes to `body`. The body of any other reply goes to
  /// HttpReply::text.
  int body_status = 200;
  /// Called with the bytes of the body as they arrive. Returns false if there are more than the
  /// caller has requested; the exchange then ends.
  std::function<bool(const char* bytes, size_t size)> body;
};

struct HttpReply {
  int status = 0;         // 0: no reply arrived
  std::string failure;    // reason why the exchange ended early; empty: it is complete
  bool may_pass = false;  // the failure may be temporary, so the caller may retry
  std::string etag, content_range;
  std::string region;  // x-amz-bucket-region
  std::string text;    // body of another status than body_status, cut off at kReplyTextBytesMax
};

inline constexpr size_t kReplyTextBytesMax = size_t{64} << 10;

/// A connection for GETs. Reuses the network connection of its last request if that is still open,
/// and begins with an idle connection of the process if there is one. Only one thread may use it at
/// a time. Does not follow redirects, because a signature is valid for one host. Each request has
/// time limits (http.cc).
class HttpConnection {
 public:
  HttpConnection();
  ~HttpConnection();
  HttpConnection(HttpConnection&&) noexcept;
  HttpConnection& operator=(HttpConnection&&) = delete;
  /// Sends the request and returns the reply. Blocks until the exchange ends.
  HttpReply get(const HttpGet& request);
  /// Returns whether any server has ever replied to this process.
  static bool was_ever_answered();

 private:
  void* handle_;
};

}  // namespace downpour::objects
