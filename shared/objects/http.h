// HTTP GETs over kept connections. The only module that includes libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/objects/sigv4.h"

namespace downpour::objects {

constexpr int64_t kStallSeconds = 15;
constexpr int64_t kStallBytes = 1024;

struct HttpGet {
  std::string url;
  Parameters headers;
  std::string ca_bundle;            // a file of certificates to trust; empty: the system's
  int64_t stall_s = kStallSeconds;  // with fewer than kStallBytes a second: the exchange ends
  /// The body of an answer of this status goes to `body`; that of any other is kept as text.
  int body_status = 200;
  /// Takes bytes as they come; false: they are more than was asked for, and the exchange ends.
  std::function<bool(const char* bytes, size_t size)> body;
};

struct HttpReply {
  int status = 0;         // 0: none came
  std::string failure;    // why the exchange ended early; empty: it did not
  bool may_pass = false;  // that failure: worth trying again
  std::string etag, content_range;
  std::string region;  // x-amz-bucket-region
  std::string text;    // of another status than body_status; cut at kReplyTextBytesMax
};

inline constexpr size_t kReplyTextBytesMax = size_t{64} << 10;

/// A connection to whatever it was last used for, if that is still open; an idle one of the
/// process's, if there is one. Belongs to one thread at a time. Redirects are not followed: a
/// signature is for one host. Nothing takes longer than its limits (http.cc).
class HttpConnection {
 public:
  HttpConnection();
  ~HttpConnection();
  HttpConnection(HttpConnection&&) noexcept;
  HttpConnection& operator=(HttpConnection&&) = delete;
  HttpReply get(const HttpGet& request);
  /// Whether anyone has answered this process yet.
  static bool was_ever_answered();

 private:
  void* handle_;
};

}  // namespace downpour::objects
