// Signatures compared with the examples that AWS publishes, and settings from the environment.
#include "shared/objects/sigv4.h"

#include <map>

#include <catch2/catch.hpp>

#include "shared/objects/store_settings.h"

namespace downpour::objects {
namespace {

using Catch::Contains;

// Amazon S3 API Reference, "Signature Calculations for the Authorization Header", examples.
const Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr int64_t kExampleTime = 1369353600;  // 2013-05-24 00:00:00 UTC

std::string header_of(const Parameters& headers, const std::string& wanted) {
  for (const auto& [name, value] : headers)
    if (name == wanted) return value;
  return "";
}

std::string authorization(const GetRequest& request, const Credentials& credentials = kExample) {
  return header_of(sign_get(request, credentials, "us-east-1", kExampleTime), "authorization");
}

TEST_CASE("a range of an object is signed as in AWS's example", "[objects]") {
  const Parameters headers = sign_get({.host = "examplebucket.s3.amazonaws.com",
                                       .path = "/test.txt",
                                       .query = {},
                                       .headers = {{"range", "bytes=0-9"}}},
                                      kExample, "us-east-1", kExampleTime);
  CHECK(header_of(headers, "x-amz-date") == "20130524T000000Z");
  CHECK(header_of(headers, "authorization") ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_CASE("a query is signed as in AWS's examples, in any order of its parameters", "[objects]") {
  CHECK_THAT(authorization({.host = "examplebucket.s3.amazonaws.com",
                            .path = "/",
                            .query = {{"lifecycle", ""}},
                            .headers = {}}),
             Contains("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  for (const Parameters& query : {Parameters{{"max-keys", "2"}, {"prefix", "J"}},
                                  Parameters{{"prefix", "J"}, {"max-keys", "2"}}}) {
    CHECK_THAT(
        authorization(
            {.host = "examplebucket.s3.amazonaws.com", .path = "/", .query = query, .headers = {}}),
        Contains("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
  }
}

TEST_CASE("the session token is sent and signed", "[objects]") {
  const Credentials session{kExample.key_id, kExample.secret, "token"};
  const GetRequest request{.host = "h", .path = "/", .query = {}, .headers = {}};
  const Parameters headers = sign_get(request, session, "us-east-1", kExampleTime);
  CHECK(header_of(headers, "x-amz-security-token") == "token");
  CHECK_THAT(header_of(headers, "authorization"), Contains("x-amz-date;x-amz-security-token,"));
}

TEST_CASE("keys and queries are percent-encoded as the signature requires", "[objects]") {
  CHECK(percent_encode("a b+c/d=é~.tsv", true) == "a%20b%2Bc/d%3D%C3%A9~.tsv");
  CHECK(percent_encode("a/b", false) == "a%2Fb");
  CHECK(query_text({{"prefix", "a b"}, {"list-type", "2"}}) == "list-type=2&prefix=a%20b");
}

Result<StoreSettings> settings_of(const std::map<std::string, std::string>& variables) {
  return settings_from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("endpoint, region and credentials come from the environment", "[objects]") {
  const StoreSettings none = settings_of({}).value();
  CHECK_FALSE(none.credentials);
  CHECK(address_of(none, "logs").host == "logs.s3.us-east-1.amazonaws.com");
  CHECK(address_of(none, "my.logs").host == "s3.us-east-1.amazonaws.com");
  CHECK(address_of(none, "my.logs").base_path == "/my.logs");
  const StoreSettings own = settings_of({{"AWS_ENDPOINT_URL", "http://minio:9000/"},
                                         {"AWS_DEFAULT_REGION", "here"},
                                         {"AWS_ACCESS_KEY_ID", "id"},
                                         {"AWS_SECRET_ACCESS_KEY", "secret"},
                                         {"AWS_SESSION_TOKEN", ""}})
                                .value();
  CHECK(own.region == "here");
  CHECK(own.credentials->key_id == "id");
  CHECK(address_of(own, "logs").scheme == "http");
  CHECK(address_of(own, "logs").host == "minio:9000");
  CHECK(address_of(own, "logs").base_path == "/logs");
  CHECK(settings_of({{"AWS_ENDPOINT_URL", "http://a"}, {"AWS_ENDPOINT_URL_S3", "http://b"}})
            ->endpoint == "http://b");
}

TEST_CASE("an error names a wrong environment variable, but never shows its value", "[objects]") {
  const auto error = [](const std::map<std::string, std::string>& variables) {
    const Error found = settings_of(variables).error();
    CHECK(found.code == ErrorCode::kConfig);
    CHECK_THAT(found.what + found.hint + found.where, !Contains("hunter2"));
    return found.what;
  };
  CHECK_THAT(error({{"AWS_SECRET_ACCESS_KEY", "hunter2"}}), Contains("AWS_ACCESS_KEY_ID is not"));
  CHECK_THAT(error({{"AWS_ACCESS_KEY_ID", "hunter2"}}),
             Contains("AWS_SECRET_ACCESS_KEY is not set"));
  CHECK_THAT(error({{"AWS_ACCESS_KEY_ID", "id"}, {"AWS_SECRET_ACCESS_KEY", "hunter2\nX: y"}}),
             Contains("AWS_SECRET_ACCESS_KEY"));
  CHECK_THAT(error({{"AWS_ENDPOINT_URL", "http://user:hunter2@host"}}),
             Contains("AWS_ENDPOINT_URL"));
  CHECK_THAT(error({{"AWS_ENDPOINT_URL", "hunter2"}}), Contains("AWS_ENDPOINT_URL"));
  CHECK_THAT(error({{"AWS_REGION", "hunter2/.."}}), Contains("AWS_REGION"));
}

}  // namespace
}  // namespace downpour::objects
