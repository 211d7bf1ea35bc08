// The parser of HTTP requests: complete requests in any pieces, and the status of each fault.
#include "tools/serve/http_parser.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "shared/base/rng.h"
#include "tests/support/damage.h"

namespace downpour::tools {
namespace {

using Got = HttpParser::Got;

constexpr const char* kPost =
    "POST /v1/predict?x=1 HTTP/1.1\r\nHost: a\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
    "Content-Length: 5\r\n\r\nhello";
constexpr const char* kChunked =
    "POST /v1/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2;note=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n";

/// Returns the bodies of the requests in `bytes`, given to the parser in pieces.
std::vector<std::string> bodies(const std::string& bytes, size_t piece, int* status = nullptr) {
  HttpParser parser(1000);
  std::vector<std::string> all;
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    const std::string part = bytes.substr(begin, piece);
    size_t at = 0;
    for (Got got; (got = parser.parse(part, at)) != Got::kNothing;) {
      if (got == Got::kFault) {
        if (status != nullptr) *status = parser.fault().status;
        return all;
      }
      all.push_back(parser.request().body);
    }
  }
  return all;
}

int status_of(const std::string& bytes) {
  int status = 0;
  bodies(bytes, bytes.size(), &status);
  int in_bytes = 0;
  bodies(bytes, 1, &in_bytes);
  CHECK(in_bytes == status);
  return status;
}

TEST_CASE("serve: a request is the same in one piece and byte by byte", "[serve]") {
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}}) {
    CHECK(bodies(kPost, piece) == std::vector<std::string>{"hello"});
    CHECK(bodies(kChunked, piece) == std::vector<std::string>{"hello"});
    CHECK(bodies(std::string(kPost) + kChunked + "\r\n" + kPost, piece).size() == 3);
  }
  HttpParser parser(1000);
  size_t at = 0;
  REQUIRE(parser.parse(kPost, at) == Got::kRequest);
  CHECK(parser.request().method == "POST");
  CHECK(parser.request().path == "/v1/predict");
  CHECK(parser.request().content_type == "application/json");
  CHECK(parser.request().keep_alive);
  CHECK_FALSE(parser.is_inside());
}

TEST_CASE("serve: an escape in the path is the byte that it means", "[serve]") {
  HttpParser parser(1000);
  size_t at = 0;
  REQUIRE(parser.parse("GET /my%20run%3a%2525%C3%A9/?a=%zz HTTP/1.0\r\n\r\n", at) == Got::kRequest);
  CHECK(parser.request().path == "/my run:%25\xc3\xa9/");
}

TEST_CASE("serve: HTTP/1.0 closes the connection unless the client asks to keep it", "[serve]") {
  const auto keeps = [](const std::string& bytes) {
    HttpParser parser(1000);
    size_t at = 0;
    REQUIRE(parser.parse(bytes, at) == Got::kRequest);
    return parser.request().keep_alive;
  };
  CHECK_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  CHECK(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
  CHECK_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
}

TEST_CASE("serve: each fault of a request has its status", "[serve]") {
  const std::string post = "POST /v1/predict HTTP/1.1\r\nHost: a\r\n";
  CHECK(status_of("nonsense\r\n\r\n") == 400);
  CHECK(status_of("GET / HTTP/1.1\n\n") == 400);
  CHECK(status_of("GET  / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of("GET http://a/ HTTP/1.1\r\n\r\n") == 400);
  CHECK(status_of(std::string("GET /\0 HTTP/1.1\r\n\r\n", 19)) == 400);
  CHECK(status_of("GET / HTTP/1.1\r\n\r\n") == 400);  // no Host
  CHECK(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n") == 400);
  for (const char* path : {"/%", "/%2", "/%g0", "/%-1", "/%+1"}) {
    INFO(path);
    CHECK(status_of(std::string("GET ") + path + " HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
  }
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: ";  // as long as allowed
  CHECK(status_of(head + std::string(kHeadBytesMax - head.size() - 4, 'x') + "\r\n\r\n") == 0);
  CHECK(status_of(head + std::string(kHeadBytesMax - head.size() - 3, 'x') + "\r\n\r\n") == 431);
  CHECK(status_of("GET / HTTP/2.0\r\n\r\n") == 505);
  CHECK(status_of(post + "\r\n") == 411);
  CHECK(status_of(post + "Content-Length: 1001\r\n\r\n") == 413);
  CHECK(status_of(post + "Content-Length: 99999999999999999999\r\n\r\n") == 400);
  CHECK(status_of(post + "Content-Length: -1\r\n\r\n") == 400);
  CHECK(status_of(post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n") == 400);
  CHECK(status_of(post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
  CHECK(status_of(post + "Transfer-Encoding: gzip\r\n\r\n") == 501);
  CHECK(status_of(post + "Transfer-Encoding: chunked\r\n\r\nx\r\n") == 400);
  CHECK(status_of(post + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n") == 400);
  CHECK(status_of(post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n") == 413);
  CHECK(status_of(post + "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + std::string(1000, 'a') +
                  "\r\n1\r\n") == 413);
  CHECK(status_of(post + "Expect: more\r\n\r\n") == 417);
  CHECK(status_of(post + "bad header\r\n\r\n") == 400);
  CHECK(status_of(post + " folded: x\r\n\r\n") == 400);
  CHECK(status_of(post + "Long: " + std::string(20'000, 'a') + "\r\n\r\n") == 431);
  CHECK(status_of("GET /" + std::string(20'000, 'a')) == 431);  // the line never ends
}

TEST_CASE("serve: damaged requests give the same in one piece and byte by byte", "[serve]") {
  Rng rng(11);
  const std::string valid = std::string(kPost) + kChunked + kPost;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = valid;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
      testing::damage(bytes, rng);
      if (bytes.empty()) bytes = "x";
    }
    int whole = 0, pieces = 0;
    const auto found = bodies(bytes, bytes.size(), &whole);
    const auto by_byte = bodies(bytes, 1, &pieces);
    if (found == by_byte && whole == pieces) continue;
    FAIL(bytes);
  }
}

TEST_CASE("serve: a client that expects 100 Continue gets it once", "[serve]") {
  HttpParser parser(1000);
  size_t at = 0;
  const std::string head =
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  REQUIRE(parser.parse(head, at) == Got::kNothing);
  CHECK(parser.take_continue());
  CHECK_FALSE(parser.take_continue());
  CHECK(parser.is_inside());
}

}  // namespace
}  // namespace downpour::tools
