#include "tools/serve/http_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/str.h"

namespace downpour::tools {
namespace {

/// Returns whether the text is a token of RFC 9110, such as a method or the name of a header.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c + ('a' - 'A'));
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Parses all of the text as a number of this base.
bool parse_size(std::string_view text, int base, uint64_t& number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return !text.empty() && end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

/// Writes the text with each "%20" and so on as the byte that it means.
bool decode_path(std::string_view text, std::string& to) {
  to.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    uint64_t byte = uint8_t(text[i]);
    if (text[i] == '%') {
      if (i + 2 >= text.size() || !parse_size(text.substr(i + 1, 2), 16, byte)) return false;
      i += 2;
    }
    to += char(byte);
  }
  return true;
}

}  // namespace

bool HttpParser::refuse(int status, std::string what, std::string hint) {
  fault_ = {status, std::move(what), std::move(hint)};
  return false;
}

bool HttpParser::take_line(std::string_view bytes, size_t& at, bool& faulty) {
  const size_t end = bytes.find('\n', at);
  const size_t stop = end == std::string_view::npos ? bytes.size() : end;
  head_bytes_ += stop - at + (end == std::string_view::npos ? 0 : 1);
  line_.append(bytes.substr(at, std::min(stop - at, kHeadBytesMax + 1)));
  at = std::min(stop + 1, bytes.size());
  if (head_bytes_ > kHeadBytesMax) {
    refuse(431, str("the request line and the headers are longer than ", kHeadBytesMax, " bytes"),
           "send fewer headers");
    faulty = true;
    return false;
  }
  if (end == std::string_view::npos) return false;
  const bool control = std::ranges::any_of(std::string_view(line_).substr(0, line_.size() - 1),
                                           [](char c) { return uint8_t(c) < ' ' && c != '\t'; });
  if (!line_.ends_with('\r') || control) {
    refuse(400, "a line of the request does not end in CR LF, or contains a control character",
           "send an HTTP/1.1 request");
    faulty = true;
    return false;
  }
  line_.pop_back();
  return true;
}

bool HttpParser::read_request_line() {
  const size_t first = line_.find(' '), last = line_.rfind(' ');
  const std::string_view line = line_;
  const bool three = first != std::string::npos && first != last;
  const std::string_view target = three ? line.substr(first + 1, last - first - 1) : "";
  if (!three || !is_token(line.substr(0, first)) || !target.starts_with('/') ||
      target.find(' ') != std::string_view::npos || !line.substr(last + 1).starts_with("HTTP/")) {
    return refuse(400, "the request line is not `METHOD /path HTTP/1.1`",
                  "send an HTTP/1.1 request");
  }
  const std::string_view version = line.substr(last + 6);
  if (version != "1.1" && version != "1.0")
    return refuse(505, "the version of HTTP is not 1.0 or 1.1", "send an HTTP/1.1 request");
  is_1_1_ = version == "1.1";
  request_.keep_alive = is_1_1_;
  request_.method = line.substr(0, first);
  if (!decode_path(target.substr(0, target.find('?')), request_.path)) {
    return refuse(400, "a `%` in the path is not followed by two hexadecimal digits",
                  "send `%25` for it");
  }
  return true;
}

bool HttpParser::read_framing(std::string_view name, std::string_view value) {
  if (name == "content-length") {
    uint64_t bytes = 0;
    if (!parse_size(value, 10, bytes) || (has_length_ && bytes != left_))
      return refuse(400, "the header Content-Length is not one number", "send the body's length");
    has_length_ = true;
    left_ = bytes;
  } else if (lower(value) == "chunked" && !chunked_) {
    chunked_ = true;
  } else {
    return refuse(501, "the header Transfer-Encoding is not `chunked`",
                  "send the body with Content-Length or in chunks");
  }
  return true;
}

bool HttpParser::read_header() {
  const std::string_view line = line_;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return refuse(400, "a header is not `Name: value`", "send an HTTP/1.1 request");
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trim(line.substr(colon + 1));
  if (name == "content-length" || name == "transfer-encoding") return read_framing(name, value);
  if (name == "content-type") {
    request_.content_type = lower(trim(value.substr(0, value.find(';'))));
  } else if (name == "host") {
    if (has_host_) return refuse(400, "the header Host is there twice", "send it once");
    has_host_ = true;
  } else if (name == "connection") {
    const std::string options = lower(value);
    if (options.find("close") != std::string::npos) request_.keep_alive = false;
    if (options.find("keep-alive") != std::string::npos) request_.keep_alive = true;
  } else if (name == "expect") {
    if (lower(value) != "100-continue")
      return refuse(417, "the header Expect is not `100-continue`", "remove the header");
    expects_continue_ = is_1_1_;
  }
  return true;
}

bool HttpParser::end_head() {
  if (is_1_1_ && !has_host_) return refuse(400, "the header Host is missing", "send it");
  if (chunked_ && (has_length_ || !is_1_1_)) {
    return refuse(400, "the header Transfer-Encoding does not go with Content-Length or HTTP/1.0",
                  "send the body with Content-Length");
  }
  if (has_length_ && left_ > body_bytes_max_) {
    return refuse(413, str("the body has ", left_, " bytes, but the limit is ", body_bytes_max_),
                  "send fewer rows at once, or raise --max-body");
  }
  const bool needs_body = request_.method == "POST" || request_.method == "PUT";
  if (needs_body && !has_length_ && !chunked_)
    return refuse(411, "the request has no Content-Length", "send the length of the body");
  step_ = chunked_ ? Step::kChunkSize : Step::kBody;
  return true;
}

bool HttpParser::read_chunk_size() {
  uint64_t bytes = 0;
  const std::string_view size = trim(std::string_view(line_).substr(0, line_.find(';')));
  if (!parse_size(size, 16, bytes))
    return refuse(400, "the size of a chunk is not a hexadecimal number", "send HTTP/1.1 chunks");
  if (bytes > body_bytes_max_ - request_.body.size()) {
    return refuse(413, str("the body has more than ", body_bytes_max_, " bytes"),
                  "send fewer rows at once, or raise --max-body");
  }
  left_ = bytes;
  step_ = bytes > 0 ? Step::kChunk : Step::kTrailers;
  return true;
}

HttpParser::Got HttpParser::complete() {
  const size_t bytes = request_.body.size();
  request_.body.append(kBodyPadBytes, '\0');
  request_.body.resize(bytes);
  step_ = Step::kRequestLine;
  head_bytes_ = 0;
  left_ = 0;
  has_length_ = chunked_ = is_1_1_ = has_host_ = expects_continue_ = false;
  return Got::kRequest;
}

bool HttpParser::take_continue() {
  const bool in_body = step_ == Step::kBody || step_ == Step::kChunkSize;
  return in_body && request_.body.empty() && std::exchange(expects_continue_, false);
}

HttpParser::Got HttpParser::parse(std::string_view bytes, size_t& at) {
  for (;;) {
    if (step_ == Step::kBody || step_ == Step::kChunk) {
      const size_t count = std::min(left_, bytes.size() - at);
      request_.body.append(bytes.substr(at, count));
      at += count;
      left_ -= count;
      if (left_ > 0) return Got::kNothing;
      if (step_ == Step::kBody) return complete();
      step_ = Step::kChunkEnd;
      continue;
    }
    bool faulty = false;
    if (!take_line(bytes, at, faulty)) return faulty ? Got::kFault : Got::kNothing;
    bool good = true;
    switch (step_) {
      case Step::kRequestLine:
        if (line_.empty()) break;  // clients may send an empty line after a body
        request_ = {};
        good = read_request_line();
        step_ = Step::kHeaders;
        break;
      case Step::kHeaders:
        good = line_.empty() ? end_head() : read_header();
        break;
      case Step::kChunkSize:
        head_bytes_ = 0;
        good = read_chunk_size();
        break;
      case Step::kChunkEnd:
        good = line_.empty() ||
               refuse(400, "a chunk is longer than its size says", "send HTTP/1.1 chunks");
        step_ = Step::kChunkSize;
        break;
      case Step::kTrailers:
        if (!line_.empty()) break;  // trailers are ignored
        return complete();
      case Step::kBody:
      case Step::kChunk:
        break;
    }
    line_.clear();
    if (!good) return Got::kFault;
  }
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

std::string format_response(const HttpResponse& response, bool keep_alive, bool head_only) {
  std::string out = str("HTTP/1.1 ", response.status, " ", reason_of(response.status),
                        "\r\nContent-Type: ", response.content_type,
                        "\r\nContent-Length: ", response.body.size(), "\r\n");
  if (response.allow != nullptr) out += str("Allow: ", response.allow, "\r\n");
  out += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (!head_only) out += response.body;
  return out;
}

}  // namespace downpour::tools
