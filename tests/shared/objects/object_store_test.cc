// ObjectStore: its requests, retries, errors and globs against a scripted store.
#include "shared/objects/object_store.h"

#include <atomic>

#include <catch2/catch.hpp>

#include "tests/support/stub_store.h"

namespace downpour::objects {
namespace {

using Catch::Contains;
using testing::StubReply;
using testing::StubRequest;
using testing::StubStore;

StoreSettings settings_for(const StubStore& stub) {
  return {.endpoint = stub.endpoint(), .credentials = {}, .ca_bundle = {}, .first_wait_ns = 1000};
}

std::string refusal(const std::string& code) {
  return "<Error><Code>" + code + "</Code><AWSAccessKeyId>hunter2</AWSAccessKeyId></Error>";
}

/// Returns the error of a read from a store that answers every request with `reply`. Checks that no
/// secret is in the text of the error.
Error error_of(const StubReply& reply, std::optional<Credentials> credentials = {}) {
  StubStore stub;
  stub.script([&](const StubRequest&) { return reply; });
  StoreSettings settings = settings_for(stub);
  settings.credentials = std::move(credentials);
  ObjectStore store(settings);
  char byte = 0;
  auto piece = store.read({"b", "k"}, 0, &byte, 1, "");
  REQUIRE_FALSE(piece);
  const Error& error = piece.error();
  CHECK_THAT(error.what + error.where + error.hint, !Contains("hunter2"));
  CHECK_THAT(error.where, Contains("s3://b/k"));
  return error;
}

TEST_CASE("reading a range returns its bytes, the size of the object and its ETag", "[objects]") {
  StubStore stub;
  stub.put("b/a b+c/é", "0123456789");
  ObjectStore store(settings_for(stub));
  std::string bytes(4, '\0');
  const ObjectPiece piece = store.read({"b", "a b+c/é"}, 3, bytes.data(), 4, "").value();
  CHECK(bytes == "3456");
  CHECK(piece.bytes == 4);
  CHECK(piece.object_bytes == 10);
  CHECK(piece.etag == "\"tag-1\"");
  CHECK(store.read({"b", "a b+c/é"}, 8, bytes.data(), 4, piece.etag)->bytes == 2);
  CHECK(stub.requests()[0].header("range") == "bytes=3-6");
  CHECK(stub.requests()[0].header("if-match").empty());
  CHECK(stub.requests()[1].header("if-match") == "\"tag-1\"");
  CHECK(stub.requests()[1].header("authorization").empty());
  CHECK(stub.connections() == 1);
}

TEST_CASE("requests are signed if there are credentials", "[objects]") {
  StubStore stub;
  stub.put("b/k", "0");
  StoreSettings settings = settings_for(stub);
  settings.credentials = Credentials{"id", "hunter2", "session"};
  ObjectStore store(settings);
  char byte = 0;
  REQUIRE(store.read({"b", "k"}, 0, &byte, 1, ""));
  const StubRequest request = stub.requests()[0];
  CHECK_THAT(request.header("authorization"), Contains("Credential=id/"));
  CHECK_THAT(request.header("authorization"), Contains("host;range;x-amz-content-sha256"));
  CHECK_THAT(request.header("authorization"), !Contains("hunter2"));
  CHECK(request.header("x-amz-security-token") == "session");
  CHECK("http://" + request.header("host") == stub.endpoint());
}

TEST_CASE("an object that has changed is an error, even if the store ignores If-Match",
          "[objects]") {
  StubStore stub;
  stub.put("b/k", "old");
  ObjectStore store(settings_for(stub));
  char byte = 0;
  const std::string etag = store.read({"b", "k"}, 0, &byte, 1, "")->etag;
  stub.put("b/k", "new");
  const Error error = store.read({"b", "k"}, 1, &byte, 1, etag).error();
  CHECK(error.code == ErrorCode::kBadData);
  CHECK_THAT(error.what, Contains("changed after the job started"));
  stub.script([](const StubRequest&) {
    return StubReply{206, {"ETag: \"z\"", "Content-Range: bytes 1-1/3"}, "e"};
  });
  CHECK_THAT(store.read({"b", "k"}, 1, &byte, 1, etag).error().what,
             Contains("changed after the job started"));
}

TEST_CASE("after a temporary failure a read is retried from the first missing byte", "[objects]") {
  StubStore stub;
  stub.put("b/k", "0123456789");
  std::atomic<int> asked = 0;
  stub.script([&](const StubRequest& request) -> std::optional<StubReply> {
    switch (++asked) {
      case 1:
        return StubReply{.status = 503, .body = refusal("SlowDown")};
      case 2:
        return StubReply{.status = 500};
      case 3:
        return StubReply{.status = 429};
      case 4:  // the store closes the connection before the first byte
        return StubReply{206, {"ETag: \"tag-1\"", "Content-Range: bytes 0-9/10"}, "0123456789", 0};
      case 5:
        CHECK(request.header("range") == "bytes=0-9");
        return StubReply{206, {"ETag: \"tag-1\"", "Content-Range: bytes 0-9/10"}, "0123456789", 4};
      default:
        CHECK(request.header("range") == "bytes=4-9");
        CHECK(request.header("if-match") == "\"tag-1\"");
        return std::nullopt;
    }
  });
  ObjectStore store(settings_for(stub));
  std::string bytes(10, '\0');
  REQUIRE(store.read({"b", "k"}, 0, bytes.data(), 10, ""));
  CHECK(bytes == "0123456789");
  CHECK(asked == 6);
}

TEST_CASE("a failure that persists is an error that names the object", "[objects]") {
  const Error busy = error_of({.status = 503, .body = refusal("SlowDown")});
  CHECK(busy.code == ErrorCode::kIo);
  CHECK_THAT(busy.what, Contains("503 SlowDown") && Contains("10 attempts"));
  StoreSettings nowhere{.endpoint = "http://127.0.0.1:1", .credentials = {}, .ca_bundle = {}};
  nowhere.first_wait_ns = 1000;
  ObjectStore store(nowhere);
  char byte = 0;
  const Error error = store.read({"b", "k"}, 0, &byte, 1, "").error();
  CHECK(error.code == ErrorCode::kIo);
  CHECK(error.where == "s3://b/k");
  CHECK_THAT(error.hint, Contains("AWS_ENDPOINT_URL"));
}

TEST_CASE("the error for a rejected request says what to do", "[objects]") {
  const Credentials keys{"hunter2", "hunter2", "hunter2"};
  const Error denied = error_of({.status = 403, .body = refusal("AccessDenied")});
  CHECK(denied.code == ErrorCode::kPermission);
  CHECK_THAT(denied.hint, Contains("set AWS_ACCESS_KEY_ID"));
  CHECK_THAT(
      error_of({.status = 403, .body = refusal("SignatureDoesNotMatch")}, keys).hint,
      Contains(
          "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID, or AWS_REGION is wrong"));
  const Error expired = error_of({.status = 400, .body = refusal("ExpiredToken")}, keys);
  CHECK(expired.code == ErrorCode::kPermission);
  CHECK_THAT(expired.hint, Contains("AWS_SESSION_TOKEN"));
  CHECK_THAT(error_of({.status = 403, .body = refusal("RequestTimeTooSkewed")}, keys).hint,
             Contains("clock"));
  const Error elsewhere = error_of({301, {"x-amz-bucket-region: eu-west-1"}, ""});
  CHECK(elsewhere.code == ErrorCode::kConfig);
  CHECK(elsewhere.hint == "AWS_REGION=eu-west-1");
  CHECK_THAT(error_of({.status = 404, .body = refusal("NoSuchBucket")}).what,
             Contains("no such bucket"));
  CHECK(error_of({.status = 404}).code == ErrorCode::kNoInput);
  CHECK(error_of({.status = 418}).code == ErrorCode::kIo);
  // Redirects are not followed, because the signature would be sent to another host.
  CHECK(error_of({302, {"Location: http://127.0.0.1:1/"}, ""}).code == ErrorCode::kIo);
}

TEST_CASE("an answer without the requested range is an error", "[objects]") {
  const auto code = [](const StubReply& reply) { return error_of(reply).code; };
  const std::string tag = "ETag: \"t\"";
  CHECK(code({206, {tag}, "0"}) == ErrorCode::kMalformed);
  CHECK(code({206, {tag, "Content-Range: bytes 1-1/2"}, "0"}) == ErrorCode::kMalformed);
  CHECK(code({206, {tag, "Content-Range: bytes 0-9/5"}, "0"}) == ErrorCode::kMalformed);
  CHECK(code({206, {tag, "Content-Range: bytes 0-0/*"}, "0"}) == ErrorCode::kMalformed);
  CHECK(code({206, {tag, "Content-Range: bytes 0-18446744073709551615/5"}, "0"}) ==
        ErrorCode::kMalformed);
  CHECK(code({206, {"Content-Range: bytes 0-0/2"}, "0"}) == ErrorCode::kUnsupported);
  CHECK(code({200, {tag}, "0"}) == ErrorCode::kUnsupported);
  // The store sends more bytes than requested.
  CHECK(code({206, {tag, "Content-Range: bytes 0-1/2"}, std::string(100'000, '0')}) ==
        ErrorCode::kMalformed);
  CHECK(code({.status = 403, .body = std::string(10'000'000, '<')}) == ErrorCode::kPermission);
}

TEST_CASE("an object of an impossible size is an error", "[objects]") {
  StubStore stub;
  uint64_t claimed = 0;
  stub.script([&](const StubRequest&) {
    return StubReply{
        206, {"ETag: \"t\"", "Content-Range: bytes 0-9/" + std::to_string(claimed)}, "0123456789"};
  });
  ObjectStore store(settings_for(stub));
  std::string bytes(10, '\0');
  claimed = kObjectBytesMax;
  CHECK(store.read({"b", "k"}, 0, bytes.data(), 10, "")->object_bytes == kObjectBytesMax);
  for (const uint64_t bad : {kObjectBytesMax + 1, uint64_t{1} << 63, UINT64_MAX}) {
    claimed = bad;
    const auto piece = store.read({"b", "k"}, 0, bytes.data(), 10, "");
    REQUIRE_FALSE(piece);
    CHECK(piece.error().code == ErrorCode::kMalformed);
    CHECK_THAT(piece.error().what, Contains("1,125,899,906,842,624 are allowed: s3://b/k"));
  }
}

TEST_CASE("a store that sends too slowly fails reads and listings like a silent one", "[objects]") {
  StubStore stub;
  std::atomic<size_t> asked = 0;
  stub.script([&](const StubRequest& request) -> std::optional<StubReply> {
    ++asked;
    if (StubStore::parameter(request, "list-type") == "2")
      return StubReply{.body = std::string(1 << 16, 'x'), .trickles = true};
    const std::string range = request.header("range");  // "bytes=17-99999"
    StubReply reply{206,
                    {"ETag: \"t\"", "Content-Range: bytes " + range.substr(6) + "/100000"},
                    std::string(100'000, 'x')};
    reply.body.resize(100'000 - std::strtoull(range.c_str() + 6, nullptr, 10));
    reply.trickles = true;
    return reply;
  });
  StoreSettings settings = settings_for(stub);
  settings.stall_s = 1;
  settings.patience_ns = kSecond / 2;  // shorter than one stalled attempt
  ObjectStore store(settings);
  std::string bytes(100'000, '\0');
  const auto piece = store.read({"b", "k"}, 0, bytes.data(), bytes.size(), "");
  REQUIRE_FALSE(piece);
  CHECK(piece.error().code == ErrorCode::kIo);
  CHECK_THAT(piece.error().what, Contains("after 1 attempts"));
  CHECK(asked == 1);  // the bytes of a stalled attempt do not count as progress
  const auto page = store.list("b", "", false, "");
  REQUIRE_FALSE(page);
  CHECK(page.error().code == ErrorCode::kIo);
  CHECK(asked == 2);
}

TEST_CASE("a glob works as for files: sorted, over several pages, without folders and hidden names",
          "[objects]") {
  StubStore stub;
  for (const char* const key :
       {"d/part-2", "d/part-10", "d/part-1", "d/.part-0", "d/sub/part-3", "d/other", "e/part-4"})
    stub.put(std::string("b/") + key, "x");
  stub.keys_per_page(2);
  ObjectStore store(settings_for(stub));
  const auto expanded = [&](const std::string& path) {
    return expand_object_path(store, path).value();
  };
  using Paths = std::vector<std::string>;
  CHECK(expanded("s3://b/d/part-*") ==
        Paths{"s3://b/d/part-1", "s3://b/d/part-10", "s3://b/d/part-2"});
  CHECK(expanded("s3://b/d/*art-?") == Paths{"s3://b/d/part-1", "s3://b/d/part-2"});
  CHECK(expanded("s3://b/*/part-[34]") == Paths{"s3://b/e/part-4"});
  CHECK(expanded("s3://b/d/*/*") == Paths{"s3://b/d/sub/part-3"});
  const size_t before = stub.requests().size();
  CHECK(expanded("s3://b/d/absent") == Paths{"s3://b/d/absent"});
  CHECK(stub.requests().size() == before);
  stub.put("b/d/part-[1]", "x");
  CHECK(expanded("s3://b/d/part-[1]") == Paths{"s3://b/d/part-[1]"});
}

TEST_CASE("a glob that matches nothing names the nearest key", "[objects]") {
  StubStore stub;
  stub.put("b/2024/clicks.tsv", "x");
  ObjectStore store(settings_for(stub));
  const auto hint = [&](const std::string& path) {
    const Error error = expand_object_path(store, path).error();
    CHECK(error.code == ErrorCode::kNoInput);
    return error.hint;
  };
  CHECK(hint("s3://b/2024/click*.csv") == "did you mean s3://b/2024/clicks.tsv?");
  CHECK(hint("s3://b/2025/*") == "a similar path exists: s3://b/2024/clicks.tsv");
  CHECK(hint("s3://empty/*") == "the bucket empty has no objects");
}

TEST_CASE("a listing that repeats its token, and a page of unlimited size, are errors",
          "[objects]") {
  StubStore stub;
  stub.script([](const StubRequest&) {
    return StubReply{.body =
                         "<ListBucketResult><IsTruncated>true</IsTruncated>"
                         "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"};
  });
  ObjectStore store(settings_for(stub));
  CHECK(expand_object_path(store, "s3://b/*").error().code == ErrorCode::kMalformed);
  stub.script([](const StubRequest&) { return StubReply{.body = std::string(20 << 20, 'x')}; });
  CHECK(expand_object_path(store, "s3://b/*").error().code == ErrorCode::kMalformed);
}

TEST_CASE("paths name a bucket and an object", "[objects]") {
  CHECK(parse_object_path("s3://b/a/b.tsv")->key == "a/b.tsv");
  for (const char* const path :
       {"s3://", "s3:///k", "s3://b", "s3://b/", "s3://u@h/k", "s3://../k"})
    CHECK(parse_object_path(path).error().code == ErrorCode::kConfig);
  CHECK(parse_object_path("s3://b/folder/").error().code == ErrorCode::kNoInput);
}

TEST_CASE("waits double up to a limit, and the seed varies them", "[objects]") {
  for (uint32_t attempt = 1; attempt < 100; ++attempt) {
    const int64_t whole =
        std::min<int64_t>(int64_t{100} << std::min(attempt - 1, 16U), 10 * kSecond);
    const int64_t wait = wait_before_ns(attempt, 100, 7);
    CHECK(wait >= whole / 2);
    CHECK(wait <= whole);
  }
  CHECK(wait_before_ns(9, kSecond, 1) != wait_before_ns(9, kSecond, 2));
}

}  // namespace
}  // namespace downpour::objects
