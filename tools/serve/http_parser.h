// HttpParser: HTTP/1.0 and 1.1 requests from the bytes of a connection. Performs no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace downpour::tools {

constexpr size_t kHeadBytesMax = 16 * 1024;  // of a request line and its headers; above it: 431
constexpr size_t kBodyPadBytes = 64;         // readable after a body

struct HttpRequest {
  std::string method;
  std::string path;  // without the query; "%20" is a blank
  std::string content_type;
  std::string body;  // followed by kBodyPadBytes readable bytes
  bool keep_alive = true;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  const char* content_type = "application/json";
  const char* allow = nullptr;  // 405: the methods of the path
};

/// Why a request is refused before it is complete. The connection is closed after the answer.
struct HttpFault {
  int status = 400;
  std::string what;
  std::string hint;
};

class HttpParser {
 public:
  explicit HttpParser(size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  enum class Got : uint8_t { kNothing, kRequest, kFault };
  /// Reads `bytes` from `at` on, which it advances. Returns kRequest after each complete request,
  /// and kNothing if it needs more bytes. After kFault the parser must not be used again.
  Got parse(std::string_view bytes, size_t& at);

  HttpRequest& request() { return request_; }
  const HttpFault& fault() const { return fault_; }
  /// Returns whether a request has begun and is not complete.
  bool is_inside() const { return step_ != Step::kRequestLine || !line_.empty(); }
  /// Returns true once if the client waits for "100 Continue" before it sends the body.
  bool take_continue();

 private:
  enum class Step : uint8_t {
    kRequestLine,
    kHeaders,
    kBody,
    kChunkSize,
    kChunk,
    kChunkEnd,
    kTrailers
  };

  /// Moves bytes to line_ until the line is complete, without its line break.
  bool take_line(std::string_view bytes, size_t& at, bool& faulty);
  bool read_request_line();
  bool read_header();
  bool read_framing(std::string_view name, std::string_view value);
  bool read_chunk_size();
  /// Decides how the body is framed. Returns false for a fault.
  bool end_head();
  Got complete();
  bool refuse(int status, std::string what, std::string hint);

  const size_t body_bytes_max_;
  HttpRequest request_;
  HttpFault fault_;
  Step step_ = Step::kRequestLine;
  std::string line_;
  size_t head_bytes_ = 0;
  size_t left_ = 0;  // of the body or the chunk
  bool has_length_ = false, chunked_ = false, is_1_1_ = false, has_host_ = false;
  bool expects_continue_ = false;
};

/// Returns the bytes of a response. `keep_alive`: the connection stays open.
std::string format_response(const HttpResponse& response, bool keep_alive, bool head_only);

/// Returns "Not Found" for 404 and so on.
const char* reason_of(int status);

}  // namespace downpour::tools
